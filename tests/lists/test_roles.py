"""Who may call which list, and which fields only root admins see."""

import pytest

from bulkdeploy.commands.registry import find_commands
from bulkdeploy.domain.accounts.accounts import RoleType
from tests.lists.test_shapes import COMMANDS, everything, sent
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, USER, World

A, R, D, U = RoleType.ADMIN, RoleType.RESOURCE_ADMIN, RoleType.DOMAIN_ADMIN, RoleType.USER
RESTRICTED = {
    "getUser": {A},
    **dict.fromkeys(("listAlerts", "archiveAlerts", "deleteAlerts"), frozenset({A, R})),
    "listCapacity": {A, R},
    "listClusters": {A, R},
    "listConfigurations": {A, D},
    "listDeploymentPlanners": {A, R},
    "listDomainChildren": {A, R, D},
    "listDomains": {A, R, D},
    **dict.fromkeys(
        ("listExtensions", "addCustomAction", "updateCustomAction", "deleteCustomAction"), frozenset({A})
    ),
    "listHosts": {A, R},
    "listPods": {A, R},
    "listRoles": {A, R, D},
    "listAllocations": {A},
    "listRolePermissions": {A},
    **dict.fromkeys(("createRole", "importRole", "updateRole", "deleteRole", "updateDomain"), frozenset({A})),
    **dict.fromkeys(("createRolePermission", "updateRolePermission", "deleteRolePermission"), frozenset({A})),
    **dict.fromkeys(("createDomain", "deleteDomain"), frozenset({A, D})),
    **dict.fromkeys(("createAccount", "updateAccount", "enableAccount", "disableAccount"), frozenset({A, R, D})),
    **dict.fromkeys(("lockAccount", "deleteAccount", "createUser", "enableUser"), frozenset({A, R, D})),
    **dict.fromkeys(("disableUser", "lockUser", "deleteUser"), frozenset({A, R, D})),
    **dict.fromkeys(
        (f"listDedicated{places}" for places in ("Zones", "Pods", "Clusters", "Hosts")), frozenset({A})
    ),
    **dict.fromkeys(("listPhysicalNetworks", "listTrafficTypes", "listSupportedNetworkServices"), frozenset({A})),
    **dict.fromkeys(("listNetworkServiceProviders", "listVlanIpRanges"), frozenset({A})),
    **dict.fromkeys(("listVirtualRouterElements", "listInternalLoadBalancerElements"), frozenset({A})),
    **dict.fromkeys(("listHypervisorCapabilities", "listManagementServers"), frozenset({A})),
    "listStoragePools": {A, R},
    **dict.fromkeys(("listImageStores", "addImageStore", "updateImageStore", "deleteImageStore"), frozenset({A})),
    **dict.fromkeys(
        (f"list{places}Metrics" for places in ("Hosts", "Clusters", "Zones", "StoragePools")), frozenset({A, R})
    ),
    **dict.fromkeys(("listInfrastructure", "listHostTags", "listStorageTags"), frozenset({A, R})),
    **dict.fromkeys(("listRouters", "listSystemVms", "listInternalLoadBalancerVMs"), frozenset({A, R})),
    **dict.fromkeys(("listDedicatedGuestVlanRanges", "listStorageNetworkIpRange"), frozenset({A, R})),
    "listGuestOsMapping": {A, R},
    **dict.fromkeys(("listClusterDrsPlan", "listStoragePoolObjects"), frozenset({A})),
    **dict.fromkeys(("listBaremetalDhcp", "listGpuCards", "listVgpuProfiles"), frozenset({A})),
    "listManagementServersMetrics": {A},
    "listConfigurationGroups": {A, D},
    "listStorageProviders": {A},
    "updateConfiguration": {A, D},
    "updateResourceLimit": {A, R, D},
    "updateResourceCount": {A, R, D},
    "resetConfiguration": {A},
}
"""Commands that not everybody may call, by CloudStack's default role rules (cloudstack-protocol.md 8)."""

HIDDEN = {
    "listVirtualMachines": {"hostid", "hostname", "instancename", "nic.broadcasturi", "nic.isolationuri"},
    "listVolumes": {"storageid", "storage", "clusterid", "clustername", "podid", "podname"},
    "listZones": {"dns1", "dns2", "internaldns1", "internaldns2", "guestcidraddress"},
    "listNetworks": {"vlan", "broadcasturi", "physicalnetworkid"},
    "listTemplates": {"url", "templatetag"},
    "listIsos": {"url", "templatetag"},
}


@pytest.mark.parametrize("name", sorted({*COMMANDS, *RESTRICTED}))
def test_role_types_are_cloudstacks(name: str) -> None:
    """Every command is open to the role types that CloudStack opens it to."""
    assert find_commands()[name].roles == RESTRICTED.get(name, set(RoleType))


@pytest.mark.parametrize("name", sorted(RESTRICTED))
def test_users_calling_an_admin_api_get_432(world: World, name: str) -> None:
    """A user who calls what is for admins gets 432 under ``errorresponse``."""
    answer = world.client(USER).get(name)
    assert answer.status == 432
    assert list(answer.json) == ["errorresponse"]


@pytest.mark.parametrize("name", sorted(HIDDEN))
def test_the_inside_is_for_root_admins(world: World, name: str) -> None:
    """Hosts, pools, VLANs and the like are in a root admin's answers and in nobody else's."""
    parameters = everything(COMMANDS[name])
    # The infrastructure shows nothing to others; templates of one's own are shown by their filter.
    others = {key: "self" if value == "all" else value for key, value in parameters.items()}
    assert sent(world.rows(name, ADMIN, **parameters)) >= HIDDEN[name]
    for caller in (DOMAIN_ADMIN, USER):
        rows = world.rows(name, caller, **others)
        assert rows
        assert sent(rows) & HIDDEN[name] == set()


@pytest.mark.parametrize(
    ("command", "parameter", "table", "name"),
    [
        ("listVirtualMachines", "hostid", "hosts", "b-2-3"),
        ("listVirtualMachines", "podid", "pods", "far"),
        ("listVirtualMachines", "clusterid", "clusters", "far-1"),
        ("listVirtualMachines", "storageid", "storage_pools", "zone-wide"),
        ("listVolumes", "storageid", "storage_pools", "zone-wide"),
        ("listVolumes", "hostid", "hosts", "b-2-3"),
        ("listNetworks", "physicalnetworkid", "physical_networks", "far-wires"),
    ],
)
def test_users_can_not_ask_where_things_are(
    world: World, command: str, parameter: str, table: str, name: str
) -> None:
    """A filter by infrastructure does not exist for users: it is ignored, and tells them nothing."""
    whole = world.rows(command, USER)
    assert world.rows(command, USER, **{parameter: world.id_of(table, name)}) == whole != []
