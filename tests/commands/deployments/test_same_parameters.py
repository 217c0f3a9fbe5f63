"""What deployVirtualMachine takes, the bulk call honours for every VM, or refuses by name: nothing is dropped."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from bulkdeploy.commands.registry import find_commands
from bulkdeploy.domain.units import GIB
from tests.commands.deployments.conftest import TableChanges
from tests.commands.deployments.test_bulk_answer import assert_intact
from tests.commands.deployments.test_bulk_rules import UNKNOWN, refused
from tests.commands.test_parameters import THEIRS
from tests.support.api.api_client import ApiClient
from tests.support.zones.zone_queries import Zone

pytestmark = pytest.mark.long

Bulk = Callable[..., dict[str, Any]]
Given = Mapping[str, object]

BULK, SINGLE = (find_commands()[name] for name in ("bulkDeployVirtualMachine", "deployVirtualMachine"))
HONOURED = {each.name for each in BULK.parameters} & {each.name for each in SINGLE.parameters}
REFUSED = sorted(set(BULK.unsupported) & (THEIRS[SINGLE.name] | {each.name for each in SINGLE.parameters}))
HELLO = base64.b64encode(b"#cloud-config").decode()


def test_each_parameter_of_the_single_call_is_honoured_or_refused() -> None:
    """Those that the single call declares, refuses, and that CloudStack has for it."""
    known = {each.name for each in SINGLE.parameters} | set(SINGLE.unsupported) | THEIRS[SINGLE.name]
    assert known == HONOURED | set(REFUSED)
    assert HONOURED.isdisjoint(REFUSED)


def test_what_many_vms_can_not_have_is_refused_by_name(
    client: ApiClient, zone: Zone, nothing_written: TableChanges
) -> None:
    """With a plain 431, in any spelling, and nothing is made; empty ones ask for nothing."""
    for parameter in REFUSED:
        for sent in (parameter, f"{parameter.title()}[0].key"):
            answer = client.post(BULK.name, **zone.bulk_parameters(2, **{sent: "7"}))
            assert (answer.status, answer.body["cserrorcode"]) == (431, 4350)
            assert f"for parameter {parameter}: it is not supported here: " in answer.body["errortext"]
    assert nothing_written()
    client.call(BULK.name, **zone.bulk_parameters(1, **dict.fromkeys(REFUSED, "")))


def ids(zone: Zone) -> dict[str, str]:
    """Ids that the cases below give."""
    names = {
        "zoneid": ("zones", "small"),
        "serviceofferingid": ("service_offerings", "Small"),
        "templateid": ("templates", "Debian 12"),
        "domainid": ("domains", "acme"),
        "networkids": ("networks", "guests"),
        "disk": ("disk_offerings", "20 GiB"),
        "custom disk": ("disk_offerings", "Custom"),
        "custom": ("service_offerings", "Custom"),
        "securitygroupids": ("security_groups", "web"),
        "affinitygroupids": ("affinity_groups", "rather-apart"),
        "podid": ("pods", "pod-a"),
        "clusterid": ("clusters", "a-2"),
    }
    return {key: zone.id_of(table, name) for key, (table, name) in names.items()}


Case = tuple[Callable[[dict[str, str]], Given], Callable[[dict[str, str]], Given]]
"""What to give besides what every call needs, and what each VM must then show, both by the ids above."""

CASES: dict[str, Case] = {
    "zoneid": (lambda _: {}, lambda of: {"zoneid": of["zoneid"]}),
    "serviceofferingid": (lambda _: {}, lambda of: {"serviceofferingid": of["serviceofferingid"]}),
    "templateid": (lambda _: {}, lambda of: {"templateid": of["templateid"]}),
    "domainid": (lambda _: {}, lambda of: {"domainid": of["domainid"]}),
    "account": (lambda _: {}, lambda _: {"account": "acme"}),
    "projectid": (
        lambda of: {"projectid": of["projectid"], "account": None, "domainid": None},
        lambda of: {"projectid": of["projectid"]},
    ),
    "hypervisor": (lambda _: {"hypervisor": "kvm"}, lambda _: {"hypervisor": "KVM"}),
    "keypair": (lambda _: {"keypair": "laptop"}, lambda _: {"keypairs": "laptop"}),
    "keypairs": (lambda _: {"keypairs": "laptop,desk"}, lambda _: {"keypairs": "laptop,desk"}),
    "userdata": (lambda _: {"userdata": HELLO}, lambda _: {"userdata": HELLO}),
    "userdataid": (lambda of: {"userdataid": of["userdataid"]}, lambda _: {"userdata": HELLO}),
    "userdatadetails": (
        lambda of: {"userdataid": of["userdataid"], "userdatadetails[0].role": "web"},
        lambda _: {"userdata": HELLO, "userdatadetails": '{"role": "web"}'},
    ),
    "networkids": (lambda of: {"networkids": of["networkids"]}, lambda of: {"network": of["networkids"]}),
    "diskofferingid": (
        lambda of: {"diskofferingid": of["disk"]},
        lambda of: {"volumes": [("DATADISK", 20, of["disk"]), ("ROOT", 2, None)]},
    ),
    "size": (
        lambda of: {"diskofferingid": of["custom disk"], "size": 7},
        lambda of: {"volumes": [("DATADISK", 7, of["custom disk"]), ("ROOT", 2, None)]},
    ),
    "rootdisksize": (lambda _: {"rootdisksize": 9}, lambda _: {"volumes": [("ROOT", 9, None)]}),
    "overridediskofferingid": (
        lambda of: {"overridediskofferingid": of["disk"]},
        lambda of: {"volumes": [("ROOT", 20, of["disk"])]},
    ),
    "datadiskofferinglist": (
        lambda of: {
            "datadiskofferinglist[0].diskofferingid": of["disk"],
            "datadiskofferinglist[1].diskofferingid": of["disk"],
        },
        lambda of: {"volumes": [*[("DATADISK", 20, of["disk"])] * 2, ("ROOT", 2, None)]},
    ),
    "datadisksdetails": (
        lambda of: {
            "datadisksdetails[0].diskOfferingId": of["custom disk"],
            "datadisksdetails[0].size": "3",
            "datadisksdetails[1].diskofferingid": of["disk"],
        },
        lambda of: {
            "volumes": [("DATADISK", 3, of["custom disk"]), ("DATADISK", 20, of["disk"]), ("ROOT", 2, None)]
        },
    ),
    "securitygroupids": (lambda of: {"securitygroupids": of["securitygroupids"]}, lambda _: {"groups": ["web"]}),
    "securitygroupnames": (lambda _: {"securitygroupnames": "web"}, lambda _: {"groups": ["web"]}),
    "affinitygroupids": (
        lambda of: {"affinitygroupids": of["affinitygroupids"]},
        lambda _: {"affinity": ["rather-apart"]},
    ),
    "affinitygroupnames": (lambda _: {"affinitygroupnames": "apart"}, lambda _: {"affinity": ["apart"]}),
    "group": (lambda _: {"group": "friends"}, lambda _: {"group": "friends"}),
    "details": (
        lambda of: {
            "serviceofferingid": of["custom"],
            "details[0].cpuNumber": 3,
            "details[0].memory": 1024,
            "details[1].keyboard": "de",
        },
        lambda _: {
            "cpunumber": 3,
            "memory": 1024,
            "details": {"cpuNumber": "3", "memory": "1024", "keyboard": "de"},
        },
    ),
    "displayvm": (lambda _: {"displayvm": "false"}, lambda _: {"displayvm": False}),
    "dynamicscalingenabled": (
        lambda _: {"dynamicscalingenabled": "false"},
        lambda _: {"isdynamicallyscalable": False},
    ),
    "boottype": (lambda _: {"boottype": "bios"}, lambda _: {}),
    "bootmode": (lambda _: {"bootmode": "legacy"}, lambda _: {}),
    "keyboard": (lambda _: {"keyboard": "de"}, lambda _: {}),
    "podid": (lambda of: {"podid": of["podid"]}, lambda _: {"pod": "pod-a"}),
    "clusterid": (lambda of: {"clusterid": of["clusterid"]}, lambda _: {"cluster": "a-2"}),
    "deploymentplanner": (
        lambda _: {"deploymentplanner": "FirstFitPlanner"},
        lambda _: {"planner": "FirstFitPlanner"},
    ),
    "startvm": (lambda _: {"startvm": "false"}, lambda _: {"cluster": None}),
}
ANSWERED = {"dryrun", "hostids", "planindex", "summary"}
"""These ask for another answer: tests/commands/deployments/test_bulk_placement.py and test_plans.py."""


VARIANTS = {"templatevariant", "forcetemplatevariant"}
"""These need a template with variants: tests/commands/virtual_machines/test_device_parameters.py."""

LEASES = {"leaseduration", "leaseexpiryaction"}
"""These are ignored unless leases are enabled: tests/commands/virtual_machines/test_leases.py."""


@pytest.mark.parametrize("parameter", sorted(HONOURED - ANSWERED - VARIANTS - LEASES))
def test_what_suits_many_vms_each_of_them_has(client: ApiClient, zone: Zone, parameter: str) -> None:
    """Every VM of a batch shows what the call said, as the VM of a single call does."""
    of = _ground(client, zone, with_groups=parameter.startswith("securitygroup"))
    give, expect = CASES[parameter]
    requested = zone.bulk_parameters(3, **give(of))
    single = client.call(SINGLE.name, **requested)["id"]
    jobs = client.call(BULK.name, **requested)["asyncjobs"]
    vms = _seen(client, zone, [single, *(job["jobinstanceid"] for job in jobs)])
    for vm in vms:
        assert {key: vm.get(key) for key in expect(of)} == dict(expect(of))
    assert_intact(zone.engine)


def _ground(client: ApiClient, zone: Zone, *, with_groups: bool) -> dict[str, str]:
    """What the cases need to be there."""
    acme = {"account": "acme", "domainid": zone.id_of("domains", "acme")}
    client.call("createSSHKeyPair", name="desk", **acme)
    registered = client.call("registerUserData", name="hello", userdata=HELLO, params="role", **acme)
    project = client.call("createProject", name="moon", displaytext="moon", **acme)
    if with_groups:
        zone.change("UPDATE zones SET security_groups_enabled = true")
        zone.change("UPDATE network_offerings SET services = services || '[\"SecurityGroup\"]'")
    return {
        **ids(zone),
        "userdataid": registered["userdata"]["id"],
        "projectid": project["id"],
    }


def _seen(client: ApiClient, zone: Zone, vm_ids: list[str]) -> list[dict[str, Any]]:
    """The VMs as lists show them, with what only other lists show beside it."""
    every = {"listall": "true", "projectid": "-1"}
    answer = client.call("listVirtualMachines", ids=",".join(vm_ids), userdata="true", **every)
    found = {vm["id"]: vm for vm in answer["virtualmachine"]}
    vms = [found[vm_id] for vm_id in vm_ids]
    volumes = client.call("listVolumes", listall="true", projectid="-1").get("volume", [])
    places = {str(row.vm): row for row in zone.rows(PLACES)}
    for vm in vms:
        mine = [volume for volume in volumes if volume["virtualmachineid"] == vm["id"]]
        vm["volumes"] = sorted(
            ((each["type"], each["size"] // GIB, each.get("diskofferingid")) for each in mine),
            key=lambda disk: disk[:2],
        )
        vm["network"] = vm["nic"][0]["networkid"]
        vm["groups"] = [group["name"] for group in vm["securitygroup"]]
        vm["affinity"] = [group["name"] for group in vm["affinitygroup"]]
        vm.update(places[vm["id"]]._asdict())
    assert len(vms) == len(vm_ids)
    return list(vms)


PLACES = (
    "SELECT v.uuid AS vm, c.name AS cluster, p.name AS pod, d.plan ->> 'planner' AS planner FROM virtual_machines v"
    " JOIN deployments d ON d.id = v.deployment_id LEFT JOIN clusters c ON c.id = v.cluster_id"
    " LEFT JOIN pods p ON p.id = v.pod_id"
)


def test_a_custom_offering_needs_its_sizes(bulk: Bulk, zone: Zone, nothing_written: TableChanges) -> None:
    """Without them, and with sizes that the offering fixes, the refusal says so, as of a single call."""
    custom = zone.id_of("service_offerings", "Custom")
    refused(bulk, 431, "details[0].cpuNumber", "from 1 to 8 cores", serviceofferingid=custom)
    sizes = {"details[0].cpuNumber": 9, "details[0].memory": 512}
    refused(bulk, 431, "details[0].cpuNumber", "from 1 to 8 cores", serviceofferingid=custom, **sizes)
    refused(bulk, 431, "should not be specified for static service offering", **sizes)
    sizes = {"details[0].cpuNumber": 1, "details[0].memory": 512, "details[0].cpuSpeed": 9999}
    refused(bulk, 431, "details[0].cpuSpeed", "not custom", serviceofferingid=custom, **sizes)
    disk = zone.id_of("disk_offerings", "Custom")
    refused(bulk, 431, "requires a custom size", diskofferingid=disk)
    refused(bulk, 431, "requires a custom size", **{"datadisksdetails[0].diskofferingid": disk})
    refused(bulk, 431, "size", "fixed size", diskofferingid=zone.id_of("disk_offerings", "20 GiB"), size=3)
    assert nothing_written()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"datadisksdetails[0].size": "3"}, ("datadisksdetails", "must name a disk offering")),
        ({"datadisksdetails[0].diskofferingid": "x"}, ("datadisksdetails", "entity does not exist")),
        ({"datadiskofferinglist[0].datadisktemplateid": "1"}, ("datadisktemplateid", "diskofferingid, size")),
        ({"datadisksdetails[0].diskofferingid": "disk", "datadisksdetails[0].size": "-3"}, ("whole number",)),
        ({"datadisksdetails[0].diskofferingid": "disk", "diskofferingid": "disk"}, ("mutually exclusive",)),
        ({"userdatadetails[0].role": "web"}, ("userdatadetails", "userdataid")),
        ({"userdata": HELLO, "userdataid": UNKNOWN}, ("mutually exclusive",)),
        ({"overridediskofferingid": "disk", "rootdisksize": 1}, ("rootdisksize", "smaller than template")),
    ],
)
def test_what_does_not_go_together_is_refused(
    bulk: Bulk, zone: Zone, nothing_written: TableChanges, given: Given, words: tuple[str, ...]
) -> None:
    """By name, before anything is made."""
    disk = zone.id_of("disk_offerings", "20 GiB")
    refused(bulk, 431, *words, **{key: disk if value == "disk" else value for key, value in given.items()})
    assert nothing_written()


def test_an_iso_has_one_root_disk(bulk: Bulk, zone: Zone) -> None:
    """Of the one offering or the other, with data disks beside it."""
    iso = {"templateid": zone.id_of("templates", "Debian 12 installer"), "hypervisor": "KVM"}
    disk, custom = zone.id_of("disk_offerings", "20 GiB"), zone.id_of("disk_offerings", "Custom")
    refused(bulk, 431, "one offering for the root disk", **iso, diskofferingid=disk, overridediskofferingid=disk)
    refused(bulk, 431, "requires a custom size", **iso, overridediskofferingid=custom)
    bulk(
        count=2,
        **iso,
        overridediskofferingid=custom,
        rootdisksize=5,
        **{"datadisksdetails[0].diskofferingid": disk},
    )
    assert [row.size_bytes // GIB for row in zone.rows("SELECT size_bytes FROM volumes ORDER BY 1")] == [
        5,
        5,
        20,
        20,
    ]
    assert_intact(zone.engine)


def test_the_specifications_own_spelling_is_understood(bulk: Bulk, zone: Zone, client: ApiClient) -> None:
    """``diwskofferingid`` is ``diskofferingid``; listApis shows the one name, and lengths as they are checked."""
    disk = zone.id_of("disk_offerings", "20 GiB")
    bulk(count=2, diwskofferingid=disk)
    bulk(count=2, DiwskOfferingId=disk)
    assert zone.scalar("SELECT count(*) FROM volumes WHERE volume_type = 'DATADISK'") == 4
    (api,) = client.call("listApis", name="bulkDeployVirtualMachine")["api"]
    shown = {parameter["name"]: parameter["length"] for parameter in api["params"]}
    assert ("diskofferingid" in shown, "diwskofferingid" in shown) == (True, False)
    assert shown["nameprefix"] == 40


def test_variables_of_user_data_are_read_as_clients_write_them(bulk: Bulk, zone: Zone) -> None:
    """As CloudStack reads them, as cloudstack-go sends maps, and as Terraform's provider fills these."""
    sent = {
        "userdatadetails[0].role": "web",
        "userdatadetails[1].key": "size",
        "userdatadetails[1].value": "small",
        "userdatadetails[2].key": "userdatadetails[0].place",
        "userdatadetails[2].value": "here",
    }
    bulk(count=2, userdata=HELLO, **sent)
    kept = zone.scalar("SELECT config -> 'user_data_details' FROM deployments")
    assert kept == {"role": "web", "size": "small", "place": "here"}


def test_values_in_maps_distinguish_a_repeat_from_another_call(bulk: Bulk, zone: Zone) -> None:
    """The order of the entries' fields says nothing, their values do, and offerings count by id, not by name."""
    disk = zone.id_of("disk_offerings", "Custom")
    entry = {"datadisksdetails[0].diskofferingid": disk, "datadisksdetails[0].size": "3"}
    first = bulk(count=2, requesttoken="once", **entry)
    zone.change("UPDATE disk_offerings SET name = 'renamed' WHERE uuid = :id", id=disk)
    turned = dict(reversed(list(entry.items())))
    assert bulk(count=2, requesttoken="once", **turned) == first
    refused(bulk, 431, "requesttoken", count=2, requesttoken="once", **{**entry, "datadisksdetails[0].size": "4"})
