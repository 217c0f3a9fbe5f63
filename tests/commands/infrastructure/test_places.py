"""Zones, pods, clusters and hosts: made, changed and deleted by calls."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from bulkdeploy.drivers.simulator.inventory import list_hosts
from tests.support.api.api_client import ApiFailure
from tests.support.zones.infrastructure_calls import Cloud


def test_a_zone_is_made_changed_and_deleted(cloud: Cloud) -> None:
    """A new zone is disabled and says what it was given; each change shows, and in the end nothing is left."""
    zone = cloud.zone(
        name="berlin",
        dns2="10.0.0.9",
        domain="berlin.example",
        guestcidraddress="10.1.1.7/24",
        localstorageenabled="True",
    )
    assert (zone["name"], zone["allocationstate"], zone["networktype"]) == ("berlin", "Disabled", "Advanced")
    assert (zone["dns1"], zone["dns2"], zone["domain"]) == ("10.0.0.2", "10.0.0.9", "berlin.example")
    assert (zone["guestcidraddress"], zone["localstorageenabled"]) == ("10.1.1.7/24", True)
    changed = cloud.make(
        "updateZone", id=zone["id"], name="potsdam", allocationstate="Enabled", dns2="", internaldns2="10.0.0.4"
    )
    assert (changed["id"], changed["name"], changed["allocationstate"]) == (zone["id"], "potsdam", "Enabled")
    assert "dns2" not in changed
    assert cloud.rows("listZones", name="potsdam") == [changed]
    cloud.done("deleteZone", id=zone["id"])
    assert cloud.rows("listZones", id=zone["id"]) == []
    events = [(row["type"], row["resourcetype"]) for row in cloud.rows("listEvents", resourceid=zone["id"])]
    assert events == [("ZONE.DELETE", "Zone"), ("ZONE.EDIT", "Zone"), ("ZONE.CREATE", "Zone")]
    assert cloud.refused("updateZone", id=zone["id"], name="x").status == 431


def test_a_private_zone_is_its_domains_until_it_is_public(cloud: Cloud) -> None:
    """A zone made for a domain names it; ispublic opens it to everybody."""
    root = cloud.id_of("domains", "ROOT")
    zone = cloud.zone(domainid=root)
    assert (zone["domainid"], zone["domainname"]) == (root, "ROOT")
    assert "domainid" not in cloud.make("updateZone", id=zone["id"], ispublic="true")


def test_places_are_built_and_torn_down_from_the_inside_out(cloud: Cloud) -> None:
    """Nothing is deleted while something is in it; a host brings its capacity, and takes it away."""
    zone = cloud.zone()
    pod = cloud.pod(zone["id"], gateway="10.9.1.1", netmask="255.255.255.0", startip="10.9.1.10")
    assert (pod["startip"], pod["endip"], pod["allocationstate"]) == (["10.9.1.10"], ["10.9.1.254"], "Enabled")
    cluster = cloud.cluster(pod)
    assert (cluster["podname"], cluster["hypervisortype"], cluster["managedstate"]) == (
        pod["name"], "Simulator", "Managed",
    )  # fmt: skip
    host = cloud.host(
        cluster, hosttags="ssd,gpu", url="http://10.9.1.77/?cpu_cores=16&cpu_mhz=2000&memory_mib=65536"
    )
    assert (host["state"], host["resourcestate"], host["hosttags"]) == ("Up", "Enabled", "ssd,gpu")
    assert (host["cpunumber"], host["cpuspeed"], host["memorytotal"]) == (16, 2000, 65536 * 1024**2)
    assert (host["ipaddress"], host["name"], host["clusterid"]) == ("10.9.1.77", "host-10-9-1-77", cluster["id"])
    for command, place in (("deleteZone", zone), ("deletePod", pod), ("deleteCluster", cluster)):
        assert "still has" in cloud.refused(command, id=place["id"]).errortext
    assert "Maintenance" in cloud.refused("deleteHost", id=host["id"]).errortext
    cloud.done("deleteHost", id=host["id"], forced="true")
    for command, place in (("deleteCluster", cluster), ("deletePod", pod), ("deleteZone", zone)):
        cloud.done(command, id=place["id"])
    assert cloud.rows("listHosts", zoneid=zone["id"]) == []
    assert cloud.rows("listCapacity", zoneid=zone["id"]) == []
    cloud.assert_intact()


def test_the_simulator_knows_hosts_that_were_added(cloud: Cloud) -> None:
    """What a url does not say is as in CloudStack's simulator; the driver knows the host by its uuid."""
    host = cloud.host(cloud.cluster(cloud.pod(cloud.zone()["id"])), url="http://sim/c0/h0")
    assert (host["name"], host["cpunumber"], host["cpuspeed"]) == ("sim-c0-h0", 4, 8000)
    with cloud.driver._link._pool.connection() as connection:
        known = {use.host.uuid: use.host for use in list_hosts(connection)}
    assert known[UUID(host["id"])].memory_mib_limit == 8192


def test_hosts_follow_the_over_commit_of_their_cluster(cloud: Cloud) -> None:
    """What is set for a cluster holds for its hypervisors too, which would refuse the starts otherwise."""
    cluster = cloud.cluster(cloud.pod(cloud.zone()["id"]))
    host = cloud.host(cluster)
    for command, value, factor in (("updateConfiguration", {"value": "2.5"}, 2.5), ("resetConfiguration", {}, 1)):
        cloud.make(command, name="mem.overprovisioning.factor", clusterid=cluster["id"], **value)
        with cloud.driver._link._pool.connection() as connection:
            known = {use.host.uuid: use.host for use in list_hosts(connection)}[UUID(host["id"])]
        assert known.memory_mib_limit == 8192 * factor


def test_local_disks_are_a_pool_where_the_zone_allows(cloud: Cloud) -> None:
    """With local storage, a host brings a pool of its own disks, which goes with it."""
    pod = cloud.pod(cloud.zone(localstorageenabled="true")["id"])
    host = cloud.host(cloud.cluster(pod), url="http://local/disk?local_disk_gib=10")
    (pool,) = cloud.rows("listStoragePools", podid=pod["id"])
    assert (pool["name"], pool["scope"], pool["disksizetotal"]) == (f"{host['name']}-local", "HOST", 10 * 1024**3)
    assert host["islocalstorageactive"] is True
    cloud.done("deleteHost", id=host["id"], forced="true")
    assert cloud.rows("listStoragePools", podid=pod["id"]) == []


def test_pods_show_their_ranges_in_every_form(cloud: Cloud) -> None:
    """Terraform reads the first of each list: there is one of a pod without a range, too."""
    zone = cloud.zone()
    requested = {"gateway": "10.50.0.1", "netmask": "255.255.255.0", "startip": "10.50.0.10", "endip": "10.50.0.99"}
    pod = cloud.make("createPod", zoneid=zone["id"], name="with a range", **requested)
    lists = ("startip", "endip", "forsystemvms", "vlanid")
    assert [pod[name] for name in lists] == [["10.50.0.10"], ["10.50.0.99"], ["0"], ["vlan://untagged"]]
    one = {"startip": "10.50.0.10", "endip": "10.50.0.99", "forsystemvms": "0", "vlanid": "vlan://untagged"}
    assert pod["ipranges"] == [{**one, "gateway": "10.50.0.1", "cidr": "10.50.0.0/24"}]
    bare = cloud.make("createPod", zoneid=zone["id"], name="without one")
    assert [bare[name] for name in lists] == [[""], [""], ["0"], ["vlan://untagged"]]
    assert bare["ipranges"] == []


def test_clusters_and_pods_are_changed(cloud: Cloud) -> None:
    """Names, states and networks change; a hypervisor only while there are no hosts."""
    zone = cloud.zone()
    pod = cloud.pod(zone["id"])
    cluster = cloud.cluster(pod, allocationstate="Disabled")
    assert cluster["allocationstate"] == "Disabled"
    changed = cloud.make("updateCluster", id=cluster["id"], allocationstate="enabled", hypervisor="KVM")
    assert (changed["allocationstate"], changed["hypervisortype"]) == ("Enabled", "KVM")
    cloud.host(changed, hypervisor="KVM")
    assert "has hosts of KVM" in cloud.refused("updateCluster", id=cluster["id"], hypervisor="VMware").errortext
    assert cloud.make("updateCluster", id=cluster["id"], managedstate="Unmanaged")["managedstate"] == "Unmanaged"
    moved = cloud.make(
        "updatePod",
        id=pod["id"],
        name="east",
        gateway="10.4.0.1",
        netmask="255.255.0.0",
        allocationstate="Disabled",
    )
    assert (moved["name"], moved["gateway"], moved["allocationstate"]) == ("east", "10.4.0.1", "Disabled")


def test_hosts_are_changed_and_reached_again(cloud: Cloud) -> None:
    """Tags, remarks, names and states change; reconnecting is a job that shows the host."""
    host = cloud.host(cloud.cluster(cloud.pod(cloud.zone()["id"])), hosttags="old")
    changed = cloud.make(
        "updateHost", id=host["id"], allocationstate="Disable", annotation="loud fan", hosttags="new,newer"
    )
    assert (changed["resourcestate"], changed["annotation"], changed["hosttags"]) == (
        "Disabled", "loud fan", "new,newer",
    )  # fmt: skip
    changed = cloud.make(
        "updateHost", id=host["id"], allocationstate="Enable", annotation="", hosttags="", name="h7"
    )
    assert (changed["resourcestate"], changed["name"]) == ("Enabled", "h7")
    assert not {"annotation", "hosttags"} & changed.keys()
    again = cloud.make("reconnectHost", id=host["id"])
    assert (again["id"], again["state"], again["name"]) == (host["id"], "Up", "h7")
    cloud.change("UPDATE hosts SET resource_state = 'Maintenance' WHERE uuid = :id", id=host["id"])
    assert "Maintenance" in cloud.refused("updateHost", id=host["id"], allocationstate="Enable").errortext


def test_concurrent_calls_create_a_name_once(cloud: Cloud) -> None:
    """Of eight calls at once with one name, one succeeds and the others are told why."""
    zone = cloud.zone()["id"]

    def attempt(_: int) -> str:
        try:
            return str(cloud.pod(zone, name="only")["id"])
        except ApiFailure as failure:
            return f"{failure.status} {failure.cserrorcode} {failure.errortext}"

    cloud.client()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(attempt, range(8)))
    assert (
        sum(
            answer.startswith("431 4350") and "another pod of the zone has this name" in answer
            for answer in answers
        )
        == 7
    )


ZONE = {"name": "z", "networktype": "Advanced", "dns1": "10.0.0.2", "internaldns1": "10.0.0.3"}


@pytest.mark.parametrize(
    ("command", "parameters", "said"),
    [
        ("createZone", {**ZONE, "name": " z"}, "no spaces around"),
        ("createZone", {**ZONE, "networktype": "Simple"}, "one of: Basic, Advanced"),
        ("createZone", {**ZONE, "dns1": "10.0.0.256"}, "parameter dns1: must be an IPv4 address"),
        ("createZone", {**ZONE, "internaldns2": "dns"}, "parameter internaldns2"),
        ("createZone", {**ZONE, "guestcidraddress": "10.1.1.0"}, "parameter guestcidraddress"),
        ("createZone", {**ZONE, "networktype": "Basic", "guestcidraddress": "10.1.1.0/24"}, "networktype Advanced"),
        ("createZone", {**ZONE, "allocationstate": "On"}, "one of: Enabled, Disabled"),
        ("createZone", {**ZONE, "isedge": "true"}, "parameter isedge: it is not supported"),
        ("createZone", {**ZONE, "ip6dns1": "::1"}, "parameter ip6dns1: it is not supported"),
        ("createZone", {**ZONE, "name": "taken"}, "another zone has this name"),
        ("updateZone", {"id": "taken", "dns1": ""}, "parameter dns1"),
        ("updateZone", {"id": "taken", "details[0].key": "x"}, "parameter details: it is not supported"),
        ("updateZone", {"id": "taken", "ispublic": "false"}, "the zone is public"),
        ("createPod", {"zoneid": "taken", "name": "p", "gateway": "10.0.0.1"}, "given together"),
        ("createPod", {"zoneid": "taken", "name": "p", "startip": "10.0.0.1"}, "requires gateway"),
        ("createPod", {"zoneid": "taken", "name": "p", "gateway": "10.3.0.1", "netmask": "255.0.0.0"}, "overlaps"),
        (
            "createPod",
            {"zoneid": "taken", "name": "p", "gateway": "10.8.0.1", "netmask": "255.255.0.0", "startip": "1.7.0.1"},
            "parameter startip",
        ),
        (
            "createPod",
            {"zoneid": "taken", "name": "p", "gateway": "10.8.0.1", "netmask": "255.255.0.0",
             "startip": "10.8.0.9", "endip": "10.8.0.8"},
            "must not be below startip",
        ),
        ("createPod", {"zoneid": "taken", "name": "pod"}, "another pod"),
    ],
)  # fmt: skip
def test_zones_and_pods_are_checked(cloud: Cloud, command: str, parameters: dict[str, str], said: str) -> None:
    """A value that breaks a rule is refused with parameter and rule, and changes nothing."""
    if not cloud.rows("listZones", name="taken"):
        taken = cloud.zone(name="taken")["id"]
        cloud.pod(taken, name="pod", gateway="10.3.0.1", netmask="255.255.255.0")
    ids = {
        name: cloud.id_of("zones", value) for name, value in parameters.items() if value == "taken" and "id" in name
    }
    failure = cloud.refused(command, **{**parameters, **ids})
    assert (failure.status, said in failure.errortext) == (431, True), failure.errortext
