"""How a job of each kind is asked for: by the call that makes it, for what is in a state that the kind accepts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from bulkdeploy.provisioning.kinds.virtual_machines.run_custom_action import RUN_CUSTOM_ACTION
from tests.support.api.api_client import ApiClient
from tests.support.zones.fleet import Fleet

BATCH = 8


@dataclass
class World:
    """A fleet, a client, and VMs that no trial has had yet."""

    fleet: Fleet
    client: ApiClient
    _running: list[str] = field(default_factory=list)
    _hosts: list[str] = field(default_factory=list)
    _network: str | None = None

    def request(self, command: str, **parameters: object) -> int:
        """Make a call that a job does; the job's internal id."""
        answer = self.client.call(command, **parameters)
        return int(self.fleet.zone.scalar("SELECT id FROM async_jobs WHERE uuid = :uuid", uuid=answer["jobid"]))

    def done(self, command: str, **parameters: object) -> None:
        """Make a call, and let its job be done."""
        job = self.request(command, **parameters)
        self.fleet.run(job)
        assert self.fleet.job(job).status == 1, self.fleet.job(job).result

    def running(self) -> str:
        """A VM that runs."""
        if not self._running:
            networks = self.fleet.zone.rows("SELECT DISTINCT network_id AS id FROM nics WHERE is_default")
            made = self.fleet.deploy(BATCH, network_ids=tuple(row.id for row in networks))
            self._running = list(made.vm_uuids)
            self.fleet.run()
        return self._running.pop()

    def stopped(self) -> str:
        """A VM that was stopped."""
        vm = self.running()
        self.done("stopVirtualMachine", id=vm)
        return vm

    def destroyed(self) -> str:
        """A VM that was destroyed."""
        vm = self.running()
        self.done("destroyVirtualMachine", id=vm)
        return vm

    def volume(self, offering: str = "20 GiB", **more: object) -> str:
        """A volume that is nowhere."""
        where = {"zoneid": self.id_of("zones", "small"), "diskofferingid": self.id_of("disk_offerings", offering)}
        return str(self.client.call("createVolume", name="data", **where, **more)["id"])

    def network(self) -> str:
        """A network that no new VM is in."""
        if self._network is None:
            offering = self.id_of("network_offerings", "DefaultIsolatedNetworkOfferingWithSourceNatService")
            where = {"zoneid": self.id_of("zones", "small"), "networkofferingid": offering}
            made = self.client.call(
                "createNetwork", name="second", gateway="10.77.0.1", netmask="255.255.255.0", **where
            )
            self._network = str(made["network"]["id"])
        return self._network

    def host(self) -> str:
        """A host with VMs and no management controller; the one before takes VMs again."""
        self.fleet.zone.change("DELETE FROM bmcs")
        state = "SELECT count(*) FROM hosts WHERE uuid = CAST(:host AS uuid) AND resource_state <> 'Enabled'"
        if self._hosts and self.fleet.zone.scalar(state, host=self._hosts[-1]):
            self.client.call("cancelHostMaintenance", id=self._hosts[-1])
        self.fleet.zone.change("UPDATE hosts SET state = 'Up' WHERE state = 'Down'")
        self.fleet.control.execute("UPDATE simulator.hosts SET is_off = false")
        self.running()
        taken = (
            "SELECT h.uuid FROM hosts h JOIN virtual_machines v ON v.host_id = h.id"
            " WHERE h.uuid::text <> ALL(:before) GROUP BY h.id ORDER BY count(*) DESC LIMIT 1"
        )
        self._hosts.append(str(self.fleet.zone.scalar(taken, before=self._hosts[-1:])))
        return self._hosts[-1]

    def controlled_host(self) -> str:
        """A host with VMs and a management controller; no other host has one."""
        host = self.host()
        login = {"username": "admin", "password": "fence-me"}
        given = {"driver": "simulator", "address": "10.9.0.5", "port": 623, **login}
        self.client.call("configureOutOfBandManagement", hostid=host, **given)
        self.client.call("enableOutOfBandManagementForHost", hostid=host)
        return host

    def skew(self) -> None:
        """One more VM beside others of its owner, where hosts without any are."""
        hosts = "UPDATE hosts SET resource_state = :state WHERE name <> 'a-1-1'"
        self.fleet.zone.change(hosts, state="Disabled")
        self.fleet.deploy(2)
        self.fleet.run()
        self.fleet.zone.change(hosts, state="Enabled")

    def id_of(self, table: str, name: str) -> str:
        """The uuid of a live row by its name."""
        return self.fleet.zone.id_of(table, name)


JobRequest = Callable[[World], int]


def _deploy(world: World) -> int:
    return world.request(
        "deployVirtualMachine",
        zoneid=world.id_of("zones", "small"),
        serviceofferingid=world.id_of("service_offerings", "Small"),
        templateid=world.id_of("templates", "Debian 12"),
    )


def _repair_elsewhere(world: World) -> int:
    """It runs on another host than its row says, and on a third one; with other sizes and devices."""
    vm = world.running()
    control = world.fleet.control
    control.execute(
        "INSERT INTO simulator.stray_guests SELECT g.uuid, max(h.uuid::text)::uuid FROM simulator.hosts h"
        " JOIN simulator.guests g ON g.host_uuid <> h.uuid WHERE g.uuid = %s GROUP BY g.uuid",
        [vm],
    )
    control.execute(
        "SELECT simulator_code.change_host(g, (SELECT min(uuid::text)::uuid FROM simulator.hosts"
        " WHERE uuid <> g.host_uuid)) FROM simulator.guests g WHERE uuid = %s",
        [vm],
    )
    control.execute("UPDATE simulator.guests SET cpu_mhz = cpu_mhz - 1, volume_uuids = '{}' WHERE uuid = %s", [vm])
    return world.request("repairVirtualMachine", id=vm)


def _repair_gone(world: World) -> int:
    vm = world.running()
    world.fleet.control.execute("DELETE FROM simulator.guests WHERE uuid = %s", [vm])
    return world.request("repairVirtualMachine", id=vm)


def _reboot(world: World, *, volatile: bool) -> int:
    """A reboot of a VM, which gets a new root disk if its service offering is volatile."""
    world.fleet.zone.change("UPDATE service_offerings SET is_volatile = :volatile", volatile=volatile)
    return world.request("rebootVirtualMachine", id=world.running())


def _scale(world: World) -> int:
    larger: dict[str, Any] = {"details[0].cpuNumber": 2, "details[0].memory": 1024}
    custom = world.id_of("service_offerings", "Custom")
    world.fleet.set_value("enable.dynamic.scale.vm", "true")
    return world.request("scaleVirtualMachine", id=world.running(), serviceofferingid=custom, **larger)


def _scale_elsewhere(world: World) -> int:
    """Its host has no room for more."""
    world.fleet.set_value("enable.dynamic.scale.vm", "true")
    vm = world.running()
    world.fleet.zone.change(
        "UPDATE host_capacity SET memory_mib_limit = CASE WHEN host_id = (SELECT host_id FROM virtual_machines"
        " WHERE uuid = CAST(:vm AS uuid)) THEN memory_mib_used ELSE 65536 END",
        vm=vm,
    )
    custom = world.id_of("service_offerings", "Custom")
    larger: dict[str, Any] = {"details[0].cpuNumber": 2, "details[0].memory": 1024}
    return world.request("scaleVirtualMachine", id=vm, serviceofferingid=custom, automigrate=True, **larger)


def _detach(world: World) -> int:
    volume = world.volume()
    world.done("attachVolume", id=volume, virtualmachineid=world.running())
    return world.request("detachVolume", id=volume)


def _iso(world: World) -> str:
    return str(world.fleet.zone.id_of("templates", "Debian 12 installer"))


def _create_template(world: World) -> int:
    vm = world.stopped()
    (root,) = world.client.call("listVolumes", virtualmachineid=vm, type="ROOT")["volume"]
    os_type = world.fleet.zone.scalar("SELECT uuid FROM os_types ORDER BY id LIMIT 1")
    return world.request("createTemplate", name="made", volumeid=root["id"], ostypeid=os_type)


def _detach_iso(world: World) -> int:
    vm = world.running()
    world.done("attachIso", id=_iso(world), virtualmachineid=vm)
    return world.request("detachIso", virtualmachineid=vm)


def _shrink(world: World) -> int:
    volume, vm = world.volume("Custom", size=3), world.running()
    world.done("attachVolume", id=volume, virtualmachineid=vm)
    world.done("stopVirtualMachine", id=vm)
    return world.request("resizeVolume", id=volume, size=2, shrinkok=True)


def _grow(world: World) -> int:
    volume = world.volume("Custom", size=2)
    world.done("attachVolume", id=volume, virtualmachineid=world.running())
    return world.request("resizeVolume", id=volume, size=3)


def _remove_nic(world: World) -> int:
    vm = world.running()
    world.done("addNicToVirtualMachine", virtualmachineid=vm, networkid=world.network())
    nic = next(nic for nic in world.client.call("listNics", virtualmachineid=vm)["nic"] if not nic["isdefault"])
    return world.request("removeNicFromVirtualMachine", virtualmachineid=vm, nicid=nic["id"])


def _with_snapshot(world: World, vm: str, **more: object) -> str:
    """A VM's one snapshot, which was taken."""
    world.done("createVMSnapshot", virtualmachineid=vm, **more)
    (snapshot,) = world.client.call("listVMSnapshot", virtualmachineid=vm)["vmSnapshot"]
    return str(snapshot["id"])


def _with_volume_snapshot(world: World, vm: str) -> dict[str, str]:
    """A VM's one snapshot of its root volume, which was taken."""
    root = _root(world, vm)
    world.done("createSnapshot", volumeid=root)
    (snapshot,) = world.client.call("listSnapshots", volumeid=root)["snapshot"]
    return {"id": str(snapshot["id"])}


def _root(world: World, vm: str) -> str:
    (root,) = world.client.call("listVolumes", virtualmachineid=vm, type="ROOT")["volume"]
    return str(root["id"])


def _balance(world: World) -> int:
    world.skew()
    return world.request("balanceZone", zoneid=world.id_of("zones", "small"))


def _migrate_to_reserved_host(world: World) -> int:
    answer = world.client.call("bulkMigrateVirtualMachine", ids=world.running())
    (job,) = answer["asyncjobs"]
    return int(world.fleet.zone.scalar("SELECT id FROM async_jobs WHERE uuid = :uuid", uuid=job["jobid"]))


def _custom_action(world: World) -> int:
    """A run of a custom action, which the simulator has none of: the job's result says so."""
    vm = world.fleet.zone.scalar("SELECT id FROM virtual_machines WHERE uuid = :vm", vm=world.running())
    action = {
        "id": str(UUID(int=1)), "name": "photo", "details": {}, "timeout": 3, "secrets": [],
        "successmessage": "done", "errormessage": "not done",
    }  # fmt: skip
    values = world.fleet.system.cipher.encrypt("{}").decode()
    return world.fleet.make_job(RUN_CUSTOM_ACTION, vm, action=action, values=values)


JOB_REQUESTS: Mapping[str, Sequence[JobRequest]] = {
    "deploy_virtual_machine": [_deploy],
    "start_virtual_machine": [lambda world: world.request("startVirtualMachine", id=world.stopped())],
    "stop_virtual_machine": [lambda world: world.request("stopVirtualMachine", id=world.running())],
    "reboot_virtual_machine": [partial(_reboot, volatile=False), partial(_reboot, volatile=True)],
    "destroy_virtual_machine": [
        lambda world: world.request("destroyVirtualMachine", id=world.running()),
        lambda world: world.request("destroyVirtualMachine", id=world.running(), expunge=True),
    ],
    "expunge_virtual_machine": [lambda world: world.request("expungeVirtualMachine", id=world.destroyed())],
    "restore_virtual_machine": [
        lambda world: world.request("restoreVirtualMachine", virtualmachineid=world.running()),
        lambda world: world.request("restoreVirtualMachine", virtualmachineid=world.running(), rootdisksize=30),
        lambda world: world.request("restoreVirtualMachine", virtualmachineid=world.stopped()),
    ],
    "create_template": [_create_template],
    "repair_virtual_machine": [_repair_elsewhere, _repair_gone],
    "scale_and_migrate": [_scale_elsewhere],
    "scale_virtual_machine": [_scale],
    "migrate_virtual_machine": [
        lambda world: world.request("migrateVirtualMachine", virtualmachineid=world.running(), autoselect=True),
        _migrate_to_reserved_host,
    ],
    "attach_iso": [lambda world: world.request("attachIso", id=_iso(world), virtualmachineid=world.running())],
    "detach_iso": [_detach_iso],
    "attach_volume": [
        lambda world: world.request("attachVolume", id=world.volume(), virtualmachineid=world.running())
    ],
    "detach_volume": [_detach],
    "resize_volume": [_grow, _shrink],
    "add_nic": [
        lambda world: world.request(
            "addNicToVirtualMachine", virtualmachineid=world.running(), networkid=world.network()
        )
    ],
    "remove_nic": [_remove_nic],
    "create_snapshot": [lambda world: world.request("createSnapshot", volumeid=_root(world, world.running()))],
    "delete_snapshot": [
        lambda world: world.request("deleteSnapshot", **_with_volume_snapshot(world, world.stopped()))
    ],
    "revert_snapshot": [
        lambda world: world.request("revertSnapshot", **_with_volume_snapshot(world, world.stopped()))
    ],
    "create_vm_snapshot": [
        lambda world: world.request("createVMSnapshot", virtualmachineid=world.running(), snapshotmemory=True)
    ],
    "delete_vm_snapshot": [
        lambda world: world.request("deleteVMSnapshot", vmsnapshotid=_with_snapshot(world, world.stopped()))
    ],
    "revert_to_vm_snapshot": [
        lambda world: world.request(
            "revertToVMSnapshot", vmsnapshotid=_with_snapshot(world, world.running(), snapshotmemory=True)
        ),
        lambda world: world.request("revertToVMSnapshot", vmsnapshotid=_with_snapshot(world, world.stopped())),
    ],
    "balance_zone": [_balance],
    "run_custom_action": [_custom_action],
    "evacuate_host": [
        lambda world: world.request("evacuateHost", id=world.host(), force=True),
        lambda world: world.request("evacuateHost", id=world.controlled_host(), force=True),
    ],
    "issue_power_action": [
        lambda world: world.request(
            "issueOutOfBandManagementPowerAction", hostid=world.controlled_host(), action="ON"
        )
    ],
    "change_power_password": [
        lambda world: world.request("changeOutOfBandManagementPassword", hostid=world.controlled_host())
    ],
    "migrate_host": [lambda world: world.request("migrateHost", id=world.host())],
    "prepare_host_for_maintenance": [lambda world: world.request("prepareHostForMaintenance", id=world.host())],
}
"""By kind, every way to ask for it that goes another way."""
