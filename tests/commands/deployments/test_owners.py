"""What the owner of new VMs brings with it: security groups, and what it may use of the catalogue."""

import pytest

from tests.commands.deployments.conftest import TableChanges
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.zones.zone_queries import Zone

DEPLOY_CALLS = ("bulkDeployVirtualMachine", "deployVirtualMachine")


@pytest.mark.parametrize("command", DEPLOY_CALLS)
@pytest.mark.parametrize(
    ("given", "groups"),
    [
        ({"securitygroupnames": "web"}, {"web"}),
        ({"securitygroupids": "web"}, {"web"}),
        ({"securitygroupnames": "web,default"}, {"web", "default"}),
        ({"securitygroupnames": ""}, {"default"}),
        ({"securitygroupids": ""}, {"default"}),
        ({}, {"default"}),
    ],
)
def test_the_default_security_group_is_for_vms_that_ask_for_none(
    client: ApiClient, zone: Zone, command: str, given: dict[str, str], groups: set[str]
) -> None:
    """Who names groups gets these and no other: ``default`` may open ports that nobody asked for."""
    zone.change("UPDATE zones SET security_groups_enabled = true")
    zone.change("UPDATE network_offerings SET services = services || '[\"SecurityGroup\"]'")
    ids = {"securitygroupids": zone.id_of("security_groups", "web")} if given.get("securitygroupids") else {}
    client.call(command, **zone.bulk_parameters(2, **given | ids))
    vms = client.call("listVirtualMachines", listall=True)["virtualmachine"]
    assert [{group["name"] for group in vm["securitygroup"]} for vm in vms] == [groups] * len(vms)


KEPT = {
    "serviceofferingid": (
        "service_offerings",
        "Small",
        "domain_ids = ARRAY[(SELECT id FROM domains WHERE name = :to)]",
    ),
    "diskofferingid": ("disk_offerings", "20 GiB", "domain_ids = ARRAY[(SELECT id FROM domains WHERE name = :to)]"),
    "zoneid": ("zones", "small", "domain_id = (SELECT id FROM domains WHERE name = :to)"),
    "templateid": (
        "templates",
        "Debian 12",
        "is_public = false, account_id = (SELECT id FROM accounts WHERE name = :to)",
    ),
}
"""By parameter: the table and the name of what it names, and how that is kept to somebody."""


@pytest.mark.parametrize("command", DEPLOY_CALLS)
@pytest.mark.parametrize("parameter", KEPT)
def test_root_admins_use_what_is_kept_to_others(
    client: ApiClient, zone: Zone, nothing_written: TableChanges, command: str, parameter: str
) -> None:
    """As owners of VMs, too: a root admin's account is refused nothing, another domain's account is."""
    table, name, kept = KEPT[parameter]
    zone.change(f"UPDATE {table} SET {kept} WHERE name = :name", to="acme", name=name)
    requested = zone.bulk_parameters(1, **{parameter: zone.id_of(table, name)})
    nothing_written.mark()
    stranger = {"account": "customers-admin", "domainid": zone.id_of("domains", "customers")}
    with pytest.raises(ApiFailure, match="customers-admin does not have permission to use") as failure:
        client.call(command, **{**requested, **stranger})
    assert failure.value.status == 531
    assert nothing_written()
    own = {key: value for key, value in requested.items() if key not in ("account", "domainid")}
    client.call(command, **own)
    client.call(command, **requested)
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 2


def test_root_admins_make_volumes_of_offerings_kept_to_others(client: ApiClient, zone: Zone) -> None:
    """What holds for the disks of a deployment holds for disks made alone."""
    table, name, kept = KEPT["diskofferingid"]
    zone.change(f"UPDATE {table} SET {kept} WHERE name = :name", to="acme", name=name)
    requested = {"zoneid": zone.id_of("zones", "small"), "diskofferingid": zone.id_of(table, name), "name": "own"}
    client.call("createVolume", **requested)
    stranger = {"account": "customers-admin", "domainid": zone.id_of("domains", "customers")}
    with pytest.raises(ApiFailure, match="permission to use offering"):
        client.call("createVolume", **requested, **stranger)
