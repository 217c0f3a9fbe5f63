"""Zones, pods, clusters and hosts that one domain or account has alone."""

from typing import Any

import pytest

from tests.support.zones.infrastructure_calls import Cloud

PLACES = ("Zone", "Pod", "Cluster", "Host")


@pytest.fixture
def places(cloud: Cloud) -> dict[str, dict[str, Any]]:
    """A zone with a pod with a cluster with a host."""
    zone = cloud.zone()
    pod = cloud.pod(zone["id"])
    cluster = cloud.cluster(pod)
    return {"Zone": zone, "Pod": pod, "Cluster": cluster, "Host": cloud.host(cluster)}


@pytest.mark.parametrize("noun", PLACES)
def test_a_place_is_given_and_taken_back(cloud: Cloud, places: dict[str, dict[str, Any]], noun: str) -> None:
    """The holder gets a group, the list shows both, and nobody else gets it until it is released."""
    word, place = noun.lower(), places[noun]["id"]
    customers, acme = cloud.id_of("domains", "customers"), cloud.id_of("domains", "acme")
    given = cloud.make(f"dedicate{noun}", **{f"{word}id": place}, domainid=customers, account="customers-admin")
    assert (given[f"{word}id"], given[f"{word}name"], given["domainid"]) == (place, places[noun]["name"], customers)
    assert given["accountid"] == cloud.id_of("accounts", "customers-admin")
    assert cloud.rows(
        f"listDedicated{noun}s", affinitygroupid=given["affinitygroupid"], account="Customers-Admin"
    ) == [given]
    (group,) = cloud.rows("listAffinityGroups", id=given["affinitygroupid"])
    assert (group["name"], group["type"]) == ("DedicatedGrp-customers-admin", "ExplicitDedication")
    again = cloud.refused(f"dedicate{noun}", **{f"{word}id": place}, domainid=acme)
    assert (again.status, "is dedicated already" in again.errortext) == (431, True)
    cloud.done(f"releaseDedicated{noun}", **{f"{word}id": place})
    assert cloud.rows(f"listDedicated{noun}s", **{f"{word}id": place}) == []
    assert cloud.rows("listAffinityGroups", id=group["id"]) == []
    assert "is not dedicated" in cloud.refused(f"releaseDedicated{noun}", **{f"{word}id": place}).errortext


def test_what_lies_in_a_place_is_its_holders(cloud: Cloud, places: dict[str, dict[str, Any]]) -> None:
    """Inside a domain's pod a host may be a sub-domain's and nobody else's, in whichever order they are given."""
    root, customers, acme = (cloud.id_of("domains", name) for name in ("ROOT", "customers", "acme"))
    host, pod = {"hostid": places["Host"]["id"]}, {"podid": places["Pod"]["id"]}
    cloud.make("dedicatePod", **pod, domainid=customers)
    assert "dedicated to others" in cloud.refused("dedicateHost", **host, domainid=root).errortext
    cloud.make("dedicateHost", **host, domainid=acme)
    cloud.done("releaseDedicatedPod", **pod)
    assert "dedicated to others" in cloud.refused("dedicatePod", **pod, domainid=acme, account="acme").errortext
    cloud.make("dedicatePod", **pod, domainid=acme)
    for noun in ("Host", "Cluster", "Pod", "Zone"):
        forced = {"forced": "true"} if noun == "Host" else {}
        cloud.done(f"delete{noun}", id=places[noun]["id"], **forced)
    for noun in PLACES:
        assert cloud.rows(f"listDedicated{noun}s") == []


def test_placement_honours_dedication(cloud: Cloud) -> None:
    """A cluster given to acme takes no VM of others; released, it takes them again."""
    cluster = cloud.id_of("clusters", "a-1")
    request: dict[str, Any] = {
        "zoneid": cloud.id_of("zones", "small"),
        "serviceofferingid": cloud.id_of("service_offerings", "Small"),
        "templateid": cloud.id_of("templates", "Debian 12"),
        "clusterid": cluster,
        "virtualmachinecount": 2,
        "dryrun": "true",
    }
    cloud.make("dedicateCluster", clusterid=cluster, domainid=cloud.id_of("domains", "acme"))
    assert cloud.refused("bulkDeployVirtualMachine", **request).status == 533
    cloud.done("releaseDedicatedCluster", clusterid=cluster)
    assert cloud.client().call("bulkDeployVirtualMachine", **request)["plan"]["fits"] >= 2


def test_what_others_use_is_not_given_away(cloud: Cloud) -> None:
    """A host with a VM of another account stays everybody's."""
    host = cloud.id_of("hosts", "b-1-1")
    cloud.deploy("foreign", hostid=host)
    failure = cloud.refused("dedicateHost", hostid=host, domainid=cloud.id_of("domains", "acme"))
    assert (failure.status, "1 VM(s) of others" in failure.errortext) == (536, True)
