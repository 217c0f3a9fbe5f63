"""allocpolicy of pods and clusters, from the call that sets it to where VMs go."""

from collections import Counter

from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.zones.fleet import Fleet


def clusters_of_vms(fleet: Fleet) -> Counter[str]:
    """How many VMs each cluster has, by name."""
    query = "SELECT c.name FROM virtual_machines v JOIN clusters c ON c.id = v.cluster_id"
    return Counter(row.name for row in fleet.zone.rows(query))


def test_policies_say_where_vms_go(fleet: Fleet, client: ApiClient) -> None:
    """A last resort takes what the others have no room for, an unallocable pod nothing; lists show and filter."""
    for name in ("a-1", "a-2"):
        policy = "preferred" if name == "a-2" else "last_resort"
        client.call("updateCluster", id=fleet.zone.id_of("clusters", name), allocpolicy=policy)
    client.call("updatePod", id=fleet.zone.id_of("pods", "pod-b"), allocpolicy="unallocable")
    fleet.zone.change("UPDATE host_capacity SET vms_limit = 2")
    (cluster,) = client.call("listClusters", allocpolicy="last_resort")["cluster"]
    (pod,) = client.call("listPods", allocpolicy="unallocable")["pod"]
    assert (cluster["name"], pod["name"], pod["allocpolicy"]) == ("a-1", "pod-b", "unallocable")
    fleet.deploy(5)
    assert clusters_of_vms(fleet) == {"a-2": 5}
    fleet.deploy(4)
    assert clusters_of_vms(fleet) == {"a-2": 6, "a-1": 3}
    error = refused(client, "bulkDeployVirtualMachine", **fleet.zone.bulk_parameters(4))
    assert "6 by unallocable: its cluster or pod is unallocable" in str(error)
    assert "allocpolicy" in str(refused(client, "updatePod", id=pod["id"], allocpolicy="never"))
