"""CloudStack's DRS commands: plans are shown, made and listed; sweepers balance enabled clusters at intervals."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.wiring.scheduled_work import ClusterDrs
from tests.commands.infrastructure.test_balance import EVEN, MOVES, VMS, _finish, _vms_by_host, skewed
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.processes.deaths import Died, dies_at
from tests.support.zones.fleet import Fleet

__all__ = ["skewed"]


def cluster_of(fleet: Fleet) -> str:
    """Return the cluster whose host has all VMs."""
    return str(
        fleet.zone.rows("SELECT c.uuid FROM clusters c JOIN hosts h ON h.cluster_id = c.id WHERE h.name = 'a-1-1'")[
            0
        ].uuid
    )


def generate(fleet: Fleet, client: ApiClient, **parameters: object) -> list[dict[str, Any]]:
    """Return the moves of a plan."""
    answer = client.call("generateClusterDrsPlan", id=cluster_of(fleet), **parameters)
    return list(answer["generateclusterdrsplanresponse"].get("migrations", []))


def plans(fleet: Fleet, client: ApiClient) -> list[dict[str, Any]]:
    """Return the plans of the cluster."""
    return list(client.call("listClusterDrsPlan", clusterid=cluster_of(fleet)).get("drsPlan", []))


def test_a_plan_is_shown_made_and_listed(skewed: Fleet, client: ApiClient) -> None:
    """As CloudStack's UI does it: the moves that are shown are sent back, and listed with their jobs."""
    moves = generate(skewed, client)
    assert len(moves) == MOVES
    assert len(generate(skewed, client, migrations=1)) == 1
    assert ({move["sourcehostname"] for move in moves}, plans(skewed, client)) == ({"a-1-1"}, [])
    sent = {
        f"migrateto[{at}].{name}": move[field]
        for at, move in enumerate(moves)
        for name, field in (("vm", "virtualmachineid"), ("host", "destinationhostid"))
    }
    job_id = client.call("executeClusterDrsPlan", id=cluster_of(skewed), **sent)["jobid"]
    assert refused(client, "executeClusterDrsPlan", id=cluster_of(skewed), **sent).errorcode == 536
    assert [plan["status"] for plan in plans(skewed, client)] == ["IN_PROGRESS"]
    assert _finish(skewed, client, job_id)["jobresult"]["balance"]["moves"] == MOVES
    assert _vms_by_host(skewed) == EVEN
    (plan,) = plans(skewed, client)
    assert (plan["id"], plan["type"], plan["status"], plan["clusterid"]) == (
        job_id, "MANUAL", "COMPLETED", cluster_of(skewed),
    )  # fmt: skip
    named = ("virtualmachineid", "sourcehostid", "destinationhostid")
    assert [[move[name] for name in named] for move in plan["migrations"]] == [
        [move[name] for name in named] for move in moves
    ]
    assert {move["jobstatus"] for move in plan["migrations"]} == {"SUCCEEDED"}
    assert generate(skewed, client) == []
    skewed.assert_intact()


def test_moves_that_are_not_of_the_cluster_are_refused(skewed: Fleet, client: ApiClient) -> None:
    """A host of another cluster, a VM that runs elsewhere, and an entry that lacks one of the two."""
    vm, cluster = str(skewed.vms()[0].uuid), cluster_of(skewed)
    other = "SELECT h.uuid FROM hosts h JOIN clusters c ON c.id = h.cluster_id WHERE c.uuid <> :cluster LIMIT 1"
    (foreign,) = skewed.zone.rows(other, cluster=cluster)
    for sent in (
        {"migrateto[0].vm": vm, "migrateto[0].host": str(foreign.uuid)},
        {"migrateto[0].vm": vm},
    ):
        failure = refused(client, "executeClusterDrsPlan", id=cluster, **sent)
        assert (failure.errorcode, "migrateto" in failure.errortext) == (431, True)
    assert _vms_by_host(skewed) == [VMS]


@pytest.mark.parametrize("place", ["before", "after"])
def test_enabled_clusters_are_balanced_once_an_interval(skewed: Fleet, client: ApiClient, place: str) -> None:
    """However many sweepers there are, and whether one dies before or after its commit."""
    drs = ClusterDrs(skewed.system)
    drs.balance_clusters()
    assert plans(skewed, client) == []
    setting = {"clusterid": cluster_of(skewed), "name": "drs.automatic.enable", "value": "true"}
    client.call("updateConfiguration", **setting)
    with dies_at(f"{Failpoint.SWEEP_BALANCE}.{place}"):
        with pytest.raises(Died):
            drs.balance_clusters()
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda _: drs.balance_clusters(), range(6)))
    (plan,) = plans(skewed, client)
    assert plan["type"] == "AUTOMATED"
    _finish(skewed, client, plan["id"])
    drs.balance_clusters()
    assert (len(plans(skewed, client)), _vms_by_host(skewed)) == (1, EVEN)
    skewed.zone.change("UPDATE async_jobs SET created = created - interval '2 hours'")
    drs.balance_clusters()
    assert len(plans(skewed, client)) == 2
