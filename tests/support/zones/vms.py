"""VMs of the tests of what users own: as they are once their deploy job is done."""

from tests.support.zones.world import World


def deployed_vm(world: World, name: str, *, state: str = "Running", **more: object) -> str:
    """A VM of acme, whose job is done as far as rows say; its uuid."""
    world.deploy(name, "acme", "acme", **more)
    world.change(
        "UPDATE async_jobs j SET status = 1, phase = 'done', result = '{}', completed = now()"
        " FROM virtual_machines v WHERE v.id = j.instance_id AND v.name = :name AND j.status = 0",
        name=name,
    )
    world.change("UPDATE virtual_machines SET state = :state WHERE name = :name", state=state, name=name)
    world.change(
        "UPDATE volumes SET state = 'Ready' WHERE vm_id = (SELECT id FROM virtual_machines WHERE name = :name)",
        name=name,
    )
    return world.id_of("virtual_machines", name)
