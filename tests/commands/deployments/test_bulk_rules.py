"""Every rule of bulkDeployVirtualMachine that refuses a call (cloudstack-protocol.md 0.3, 0.4, 5.3, 5.5)."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from bulkdeploy.wiring.cipher import FernetCipher
from tests.commands.deployments.conftest import TableChanges
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.zones.zone_queries import Zone

UNKNOWN = "00000000-0000-4000-8000-00000000dead"
Bulk = Callable[..., dict[str, Any]]
Untouched = Callable[[], bool]


def refused(bulk: Bulk, status: int, *words: str, **parameters: object) -> ApiFailure:
    """The refusal of a call, which must say all of ``words``."""
    with pytest.raises(ApiFailure) as failure:
        bulk(**parameters)
    assert failure.value.status == status, failure.value.errortext
    assert failure.value.errorcode == status
    for word in words:
        assert word in failure.value.errortext
    return failure.value


@pytest.mark.parametrize("parameter", ["zoneid", "serviceofferingid", "templateid", "virtualmachinecount"])
def test_required_parameters_must_be_there(bulk: Bulk, nothing_written: Untouched, parameter: str) -> None:
    """Each required parameter that is absent is named."""
    failure = refused(bulk, 431, "missing parameter", parameter, **{parameter: None})
    assert failure.cserrorcode == 9999
    assert nothing_written()


@pytest.mark.parametrize(
    "parameter",
    [
        *("zoneid", "serviceofferingid", "templateid", "podid", "clusterid", "networkids", "diskofferingid"),
        *("securitygroupids", "affinitygroupids", "domainid", "projectid"),
    ],
)
def test_ids_must_exist(bulk: Bulk, nothing_written: Untouched, parameter: str) -> None:
    """An id that names nothing is answered with the text that clients match."""
    failure = refused(bulk, 431, **{parameter: UNKNOWN})
    assert (
        f"Invalid parameter {parameter} value={UNKNOWN} due to incorrect long value format, or entity does not"
        in failure.errortext
    )
    assert nothing_written()


@pytest.mark.parametrize("count", [0, -1, -2147483648])
def test_count_must_be_positive(bulk: Bulk, nothing_written: Untouched, count: int) -> None:
    """Zero and negative counts are refused with the upstream code."""
    failure = refused(bulk, 431, "virtualmachinecount", "positive number", count=count)
    assert failure.cserrorcode == 4350
    assert nothing_written()


@pytest.mark.parametrize("count", ["abc", "1.9", "1_000", " 1", "٣", "9" * 40, "0x10", "1e3"])
def test_count_must_be_a_number(bulk: Bulk, nothing_written: Untouched, count: str) -> None:
    """Whatever is not plain ASCII digits is no count."""
    refused(bulk, 431, "virtualmachinecount", virtualmachinecount=count)
    assert nothing_written()


def test_count_is_bounded_by_the_setting(bulk: Bulk) -> None:
    """More than virtual.machine.max.count.per.bulk.call names the setting."""
    refused(bulk, 431, "virtual.machine.max.count.per.bulk.call", "50000", count=50001)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("podid", "clusterid"),
        ("securitygroupids", "securitygroupnames"),
        ("affinitygroupids", "affinitygroupnames"),
    ],
)
def test_exclusive_parameters(bulk: Bulk, zone: Zone, nothing_written: Untouched, first: str, second: str) -> None:
    """Two ways to say the same thing exclude each other, and both are named."""
    values = {
        "podid": zone.id_of("pods", "pod-a"),
        "clusterid": zone.id_of("clusters", "a-1"),
        "securitygroupids": zone.id_of("security_groups", "web"),
        "securitygroupnames": "web",
        "affinitygroupids": zone.id_of("affinity_groups", "apart"),
        "affinitygroupnames": "apart",
    }
    failure = refused(bulk, 431, first, second, **{first: values[first], second: values[second]})
    assert failure.cserrorcode == 4350
    assert nothing_written()


def test_account_and_domain_come_together(bulk: Bulk, nothing_written: Untouched) -> None:
    """An account without its domain, or the reverse, is refused."""
    refused(bulk, 431, "Account must be specified with domainId", domainid=None)
    refused(bulk, 431, "Account must be specified with domainId", account=None)
    assert nothing_written()


def test_account_must_exist_and_be_enabled(bulk: Bulk, zone: Zone, nothing_written: Untouched) -> None:
    """An unknown account is 431, a disabled one 531."""
    refused(bulk, 431, "Unable to find account by name nobody", account="nobody")
    zone.change("UPDATE accounts SET state = 'disabled' WHERE name = 'acme'")
    refused(bulk, 531, "disabled: acme")
    assert nothing_written()


def test_hypervisor_is_needed_where_the_template_has_none(bulk: Bulk, zone: Zone) -> None:
    """A template without hypervisor needs the parameter, and it must be a known type."""
    template = zone.id_of("templates", "Any hypervisor")
    refused(bulk, 431, "hypervisor parameter is needed", templateid=template)
    refused(bulk, 431, "hypervisor", "Lego", "KVM", templateid=template, hypervisor="Lego")
    assert bulk(count=1, templateid=template, hypervisor="kvm")["count"] == 1


def test_hypervisor_must_match_the_template(bulk: Bulk, nothing_written: Untouched) -> None:
    """Another hypervisor than the template's is refused."""
    refused(bulk, 431, "different from the hypervisor type of the template", hypervisor="VMware")
    assert nothing_written()


@pytest.mark.parametrize("table", ["service_offerings", "disk_offerings"])
def test_local_storage_needs_a_zone_with_local_storage(bulk: Bulk, zone: Zone, table: str) -> None:
    """A local-storage offering in a zone without local storage names both."""
    name = {"service_offerings": "Small", "disk_offerings": "20 GiB"}[table]
    zone.change(f"UPDATE {table} SET storage_type = 'local' WHERE name = :name", name=name)
    disk = {"diskofferingid": zone.id_of("disk_offerings", "20 GiB")} if table == "disk_offerings" else {}
    refused(bulk, 431, "Zone small is not configured to use local storage", name, **disk)


def test_an_iso_needs_a_root_disk_and_must_boot(bulk: Bulk, zone: Zone) -> None:
    """Installing from an ISO asks for a disk offering and a bootable ISO."""
    iso = zone.id_of("templates", "Debian 12 installer")
    disk = zone.id_of("disk_offerings", "20 GiB")
    refused(bulk, 431, "requires a disk offering", templateid=iso, hypervisor="KVM")
    assert bulk(count=1, templateid=iso, hypervisor="KVM", diskofferingid=disk)["count"] == 1
    zone.change("UPDATE templates SET bootable = false WHERE kind = 'iso'")
    refused(bulk, 431, "bootable", templateid=iso, hypervisor="KVM", diskofferingid=disk)


def test_the_template_must_be_ready_in_the_zone(bulk: Bulk, zone: Zone, nothing_written: Untouched) -> None:
    """A template that is still being fetched is refused."""
    zone.change("UPDATE template_zones SET ready = false")
    refused(bulk, 431, "Debian 12", "not ready in zone small")
    zone.change("UPDATE template_zones SET ready = true")
    assert nothing_written()


def test_a_basic_zone_takes_no_networks(bulk: Bulk, zone: Zone) -> None:
    """In Basic zones the network is given."""
    network = zone.id_of("networks", "guests")
    zone.change("UPDATE zones SET network_type = 'Basic'")
    refused(bulk, 431, "Can't specify 'networkids' parameter in basic zone small", networkids=network)


def test_vms_that_do_not_start_have_addresses_of_a_pod_in_a_basic_zone(bulk: Bulk, zone: Zone) -> None:
    """Every range is a pod's there: such VMs get those of the pod asked for, else from where most are left."""
    zone.change("UPDATE zones SET network_type = 'Basic'")
    zone.change("UPDATE ip_ranges SET pod_id = (SELECT min(id) FROM pods), next_ip = end_ip - 1")
    zone.change(
        "INSERT INTO ip_ranges (network_id, pod_id, gateway, netmask, start_ip, end_ip, next_ip)"
        " SELECT network_id, (SELECT max(id) FROM pods), '10.90.0.1', '255.255.255.0', '10.90.0.10', '10.90.0.99',"
        " '10.90.0.10' FROM ip_ranges LIMIT 1"
    )
    pod = zone.rows("SELECT uuid FROM pods ORDER BY id")[0].uuid
    assert (bulk(count=2, startvm="false")["count"], bulk(count=1, startvm="false", podid=pod)["count"]) == (2, 1)
    taken = [row.ip for row in zone.rows("SELECT host(ip_address) AS ip FROM nics ORDER BY id")]
    assert taken[:2] == ["10.90.0.10", "10.90.0.11"]
    assert not taken[2].startswith("10.90.")


def test_security_groups_need_a_zone_that_has_them(bulk: Bulk, zone: Zone, nothing_written: Untouched) -> None:
    """An Advanced zone without security groups refuses them, by id and by name."""
    group = zone.id_of("security_groups", "web")
    refused(bulk, 431, "security group feature is not enabled for zone", securitygroupids=group)
    refused(bulk, 431, "security group feature is not enabled for zone", securitygroupnames="web")
    assert nothing_written()


def test_groups_and_key_pairs_by_name_must_be_the_owners(bulk: Bulk, nothing_written: Untouched) -> None:
    """Names that the owner has not are named in the refusal; an empty one names none."""
    refused(bulk, 431, "Unable to find affinity group by name nothing", affinitygroupnames="nothing")
    refused(bulk, 431, "keypair", "desk", keypair="desk")
    assert nothing_written()
    assert bulk(keypair="", count=1)["count"] == 1


def test_affinity_groups_of_another_account_are_refused(bulk: Bulk, zone: Zone) -> None:
    """A group of acme is not for the admin's own VMs."""
    group = zone.id_of("affinity_groups", "apart")
    refused(bulk, 531, "does not belong to", affinitygroupids=group, account=None, domainid=None)


def test_user_data_rules(bulk: Bulk, client: ApiClient, zone: Zone, nothing_written: Untouched) -> None:
    """User data is base64, not empty, within the setting, and shorter by GET than by POST."""
    refused(bulk, 431, "not base64", userdata="!!!")
    refused(bulk, 431, "too short", userdata="==")
    refused(bulk, 431, "max length", userdata=base64.b64encode(b"x" * 30000).decode())
    by_get = client.get(
        "bulkDeployVirtualMachine",
        **zone.bulk_parameters(1, userdata=base64.b64encode(b"x" * 3100).decode()),
    )
    assert (by_get.status, "http GET request" in by_get.body["errortext"]) == (431, True)
    assert nothing_written()
    assert bulk(count=1, userdata=base64.b64encode(b"x" * 3100).decode())["count"] == 1


def test_pins_must_lie_in_the_zone(bulk: Bulk, zone: Zone, nothing_written: Untouched) -> None:
    """A removed cluster cannot be pinned."""
    cluster = zone.id_of("clusters", "a-1")
    zone.change("UPDATE clusters SET removed = now() WHERE name = 'a-1'")
    refused(bulk, 431, "clusterid", clusterid=cluster)
    zone.change("UPDATE clusters SET removed = NULL")
    assert nothing_written()


@pytest.mark.parametrize(
    "parameter",
    ["ip6address", "nicnetworklist[0].network", "snapshotid"],
)
def test_unsupported_parameters_of_a_single_vm_are_refused_by_name(
    client: ApiClient, zone: Zone, nothing_written: Untouched, parameter: str
) -> None:
    """What CloudStack has for the call and this service cannot honour is refused by name, not left out."""
    requested = {**zone.bulk_parameters(1), parameter: zone.id_of("zones", "small")}
    answer = client.post("deployVirtualMachine", **requested)
    assert (answer.status, "not supported here" in answer.body["errortext"]) == (431, True)
    assert parameter.partition("[")[0] in answer.body["errortext"]
    assert nothing_written()


@pytest.mark.parametrize("prefix", ["9lives", "web-", "web.site", "\u00e9", "w" * 41])
def test_name_prefixes_are_refused_before_anything_else_and_in_dry_runs(bulk: Bulk, prefix: str) -> None:
    """What cannot begin a host name is refused, whether or not there is room, and a dry run says so too."""
    refused(bulk, 431, "nameprefix", nameprefix=prefix, dryrun="true")
    refused(bulk, 431, "nameprefix", nameprefix=prefix, count=900)


def test_private_templates_are_for_their_owner(bulk: Bulk, zone: Zone, nothing_written: Untouched) -> None:
    """The owner of the VMs must be allowed to use the template, though a root admin calls."""
    zone.change("UPDATE templates SET is_public = false WHERE name = 'Debian 12'")
    refused(bulk, 531, "acme", zone.id_of("templates", "Debian 12"))
    assert nothing_written()
    assert bulk(count=1, account=None, domainid=None)["count"] == 1
    zone.change("UPDATE templates SET account_id = (SELECT id FROM accounts WHERE name = 'acme')")
    assert bulk(count=1)["count"] == 1


@pytest.mark.parametrize(
    ("parameter", "table"),
    [
        ("serviceofferingid", "service_offerings"),
        ("diskofferingid", "disk_offerings"),
        ("templateid", "templates"),
        ("zoneid", "zones"),
        ("clusterid", "clusters"),
        ("podid", "pods"),
        ("networkids", "networks"),
        ("affinitygroupids", "affinity_groups"),
        ("securitygroupids", "security_groups"),
    ],
)
def test_refusals_name_entities_as_the_caller_did(
    client: ApiClient, zone: Zone, nothing_written: TableChanges, parameter: str, table: str
) -> None:
    """What was removed is refused by its uuid, never by an internal id."""
    if table == "security_groups":
        zone.change("UPDATE zones SET network_type = 'Basic'")
    ids = [str(row.uuid) for row in zone.rows(f"SELECT uuid FROM {table} WHERE removed IS NULL ORDER BY id")]
    call = zone.bulk_parameters(1, **{parameter: ids[0]})
    zone.change(f"UPDATE {table} SET removed = now()")
    nothing_written.mark()
    answer = client.post("bulkDeployVirtualMachine", **call)
    assert answer.status == 431
    assert parameter in answer.body["errortext"]
    assert ids[0] in answer.body["errortext"]
    assert nothing_written()


def test_networks_must_be_usable(bulk: Bulk, zone: Zone, nothing_written: Untouched) -> None:
    """A network that serves another account is refused."""
    network = zone.id_of("networks", "guests")
    zone.change("UPDATE networks SET acl_type = 'Account'")
    refused(bulk, 531, network, networkids=network)
    zone.change("UPDATE networks SET acl_type = 'Domain'")
    assert nothing_written()


@pytest.mark.parametrize("user", ["acme", "customers-admin"])
def test_only_root_admins_may_deploy_in_bulk(api_url: str, cipher: FernetCipher, zone: Zone, user: str) -> None:
    """A user and a domain admin get 432, and their listApis does not show the call."""
    key, encrypted = zone.rows(
        "SELECT k.api_key, k.secret_key_encrypted FROM api_keys k JOIN users u ON u.id = k.user_id"
        " WHERE u.username = :name",
        name=user,
    )[0]
    caller = ApiClient(api_url, key, cipher.decrypt(encrypted))
    answer = caller.post("bulkDeployVirtualMachine", **zone.bulk_parameters(1))
    assert answer.status == 432
    assert "errorresponse" in answer.json
    shown = {api["name"] for api in caller.call("listApis")["api"]}
    assert "deployVirtualMachine" in shown
    assert "bulkDeployVirtualMachine" not in shown
