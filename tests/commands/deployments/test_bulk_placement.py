"""Who places a batch, what its answers say of that, to whom, and how it gives way to less than was asked for."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine

from bulkdeploy.wiring.cipher import FernetCipher
from tests.commands.deployments.conftest import TableChanges
from tests.commands.deployments.test_bulk_answer import assert_intact
from tests.commands.deployments.test_bulk_rules import refused
from tests.support.api.accounts import add_role, add_user
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.zones.zone_queries import Zone

Bulk = Callable[..., dict[str, Any]]
OTHER_PLANNERS = ("FirstFitPlanner", "UserConcentratedPodPlanner", "ImplicitDedicationPlanner")
OF_THE_INFRASTRUCTURE = {"capacity", "clusters", "excluded", "hosts", "placedhosts", "skew", "planner"}


def offering_names(zone: Zone, planner: str) -> None:
    """Let the offering of the batch name a planner."""
    zone.change("UPDATE service_offerings SET deployment_planner = :planner WHERE name = 'Small'", planner=planner)


def deployment(client: ApiClient, **more: object) -> dict[str, Any]:
    """The only bulk deployment there is."""
    (found,) = client.call("listBulkDeployments", listall=True, **more)["bulkdeployment"]
    return dict(found)


@pytest.mark.parametrize("planner", OTHER_PLANNERS)
def test_an_offerings_planner_does_not_end_dispersion(
    bulk: Bulk, client: ApiClient, zone: Zone, planner: str
) -> None:
    """The specification: by count only. Plan and deployment say who placed, and a skew of 1."""
    offering_names(zone, planner)
    plan = bulk(count=10, dryrun="true")["plan"]
    assert (plan["planner"], plan["skew"]) == ("UserDispersingPlanner", 1)
    bulk(count=10)
    assert sorted(zone.vms_per_cluster().values()) == [2, 2, 3, 3]
    found = deployment(client)
    assert (found["planner"], found["skew"]) == ("UserDispersingPlanner", 1)


def test_what_an_offerings_planner_excludes_stays_excluded(
    bulk: Bulk, client: ApiClient, zone: Zone, engine: Engine
) -> None:
    """Implicit dedication is a promise about hosts: the batch disperses over those that nobody else uses."""
    client.call("bulkDeployVirtualMachine", **zone.bulk_parameters(3, account=None, domainid=None))
    used = {row.host_id for row in zone.rows("SELECT host_id FROM virtual_machines")}
    offering_names(zone, "ImplicitDedicationPlanner")
    plan = bulk(count=8, dryrun="true")["plan"]
    assert [(row["reason"], row["hosts"]) for row in plan["excluded"]] == [("occupied_by_others", 3)]
    bulk(count=8)
    mine = zone.rows("SELECT host_id FROM host_claims x JOIN accounts a ON a.id = x.account_id AND a.name = 'acme'")
    assert used & {row.host_id for row in mine} == set()
    assert_intact(engine)


def test_a_planner_that_the_call_names_places(bulk: Bulk, client: ApiClient, zone: Zone) -> None:
    """Deploymentplanner is the call's own choice: first fit fills one cluster, and the skew says so."""
    offering_names(zone, "ImplicitDedicationPlanner")
    bulk(count=6, deploymentplanner="firstfitplanner")
    assert sorted(zone.vms_per_cluster().values()) == [0, 0, 0, 6]
    found = deployment(client)
    assert (found["planner"], found["skew"]) == ("FirstFitPlanner", 6)
    refused(bulk, 431, "deploymentplanner", "UserDispersingPlanner", count=1, deploymentplanner="Best")


def test_planners_say_how_they_fill(client: ApiClient) -> None:
    """ListDeploymentPlanners tells of each which clusters it prefers, in a declared order."""
    rows = client.call("listDeploymentPlanners")["deploymentplanner"]
    assert [row["name"] for row in rows] == [
        *("FirstFitPlanner", "UserDispersingPlanner", "UserConcentratedPodPlanner", "ImplicitDedicationPlanner")
    ]
    assert len({row["description"] for row in rows}) == len(rows)


def test_skew_counts_clusters_that_got_nothing(bulk: Bulk, zone: Zone, client: ApiClient) -> None:
    """A cluster that could have taken VMs and got none because the owner has many there already counts."""
    bulk(count=9, clusterid=zone.id_of("clusters", "b-2"))
    assert bulk(count=3, dryrun="true")["plan"]["skew"] == 8
    bulk(count=3)
    rows = client.call("listBulkDeployments", listall=True)["bulkdeployment"]
    assert [row["skew"] for row in rows] == [8, 0]


def test_an_offering_whose_planner_is_gone_is_refused_for_single_vms(zone: Zone, client: ApiClient) -> None:
    """A planner that was uninstalled is named, with those there are; nothing falls back in silence."""
    offering_names(zone, "OursPlanner")
    single = {name: value for name, value in zone.bulk_parameters(1).items() if name != "virtualmachinecount"}
    with pytest.raises(ApiFailure, match="OursPlanner is not installed; installed are: FirstFitPlanner") as failure:
        client.call("deployVirtualMachine", **single)
    assert failure.value.status == 534
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 0


def test_a_refusal_tells_rules_with_their_remedies(bulk: Bulk, zone: Zone) -> None:
    """Each reason of a 533 comes with what it means and what an operator can do."""
    zone.change("UPDATE hosts SET resource_state = 'Maintenance' WHERE name LIKE 'a-%'")
    zone.change("UPDATE host_capacity SET memory_mib_limit = memory_mib_used")
    failure = refused(
        bulk, 533, "6 by host_not_enabled: the host is disabled or in maintenance (enable it", count=2
    )
    assert "6 by memory: too little memory is free (free or add hosts" in failure.errortext


@pytest.mark.parametrize("in_cluster", [True, False], ids=["in a cluster", "in the zone"])
def test_a_call_that_fits_in_part_names_what_limits_it(bulk: Bulk, zone: Zone, in_cluster: bool) -> None:
    """The error and the dry run name the rules for which no more VMs fit, beside those of hosts out of scope."""
    zone.change("UPDATE host_capacity SET memory_mib_limit = memory_mib_used + 2 * 512")
    pins = {"clusterid": zone.id_of("clusters", "a-1")} if in_cluster else {}
    clusters = 1 if in_cluster else 4
    named = [f"{5 * clusters} would fit", f"{2 * clusters} by memory: ", f"{clusters} by cluster_threshold: "]
    failure = refused(bulk, 533, *named, count=5 * clusters + 1, **pins)
    assert "out_of_scope" not in failure.errortext
    plan = bulk(count=5 * clusters + 1, minimumcount=1, dryrun="true", **pins)["plan"]
    excluded = {row["reason"]: row["hosts"] for row in plan["excluded"]}
    outside = {"out_of_scope": 9} if in_cluster else {}
    assert excluded == {"memory": 2 * clusters, "cluster_threshold": clusters, **outside}


def test_hosts_are_answered_one_by_one(bulk: Bulk, zone: Zone, nothing_written: TableChanges) -> None:
    """A dry run says of each host asked about what it holds, or the rule that excludes it, its text and remedy."""
    zone.change("UPDATE hosts SET state = 'Down' WHERE name = 'a-1-1'")
    zone.change("UPDATE clusters SET allocation_state = 'Disabled' WHERE name = 'b-2'")
    zone.change("UPDATE host_capacity SET vms_limit = 5")
    names = ("a-1-1", "b-2-1", "a-2-1", "b-1-1")
    ids = ",".join(zone.id_of("hosts", name) for name in names)
    hosts = bulk(count=1, dryrun="true", hostids=ids, podid=zone.id_of("pods", "pod-a"))["plan"]["hosts"]
    assert [(host["hostname"], host.get("reason"), host["capacity"]) for host in hosts] == [
        ("a-1-1", "host_not_up", 0),
        ("b-2-1", "out_of_scope", 0),
        ("a-2-1", None, 5),
        ("b-1-1", "out_of_scope", 0),
    ]
    assert hosts[0]["text"] == "the host is not Up"
    assert "agent" in hosts[0]["remedy"]
    assert (hosts[0]["clustername"], "text" in hosts[2]) == ("a-1", False)
    assert nothing_written()
    refused(bulk, 431, "hostids", "dryrun", count=1, hostids=ids)
    assert nothing_written()


def test_a_deployment_answers_why_not_a_host(bulk: Bulk, client: ApiClient, zone: Zone) -> None:
    """Afterwards: whether one more of its VMs could go to a host now, by the call's pins and its groups."""
    bulk(count=4, affinitygroupnames="apart", podid=zone.id_of("pods", "pod-a"))
    used = zone.rows("SELECT h.uuid, h.name FROM virtual_machines v JOIN hosts h ON h.id = v.host_id")
    taken = used[0]
    free = next(name for name in ("a-1-1", "a-1-2", "a-1-3") if name not in {row.name for row in used})
    requested = f"{taken.uuid},{zone.id_of('hosts', free)},{zone.id_of('hosts', 'b-1-1')}"
    found = deployment(client, id=deployment(client)["id"], hostids=requested)
    assert [(host["hostname"], host.get("reason")) for host in found["hosts"]] == [
        (taken.name, "affinity"),
        (free, None),
        ("b-1-1", "out_of_scope"),
    ]
    with pytest.raises(ApiFailure, match="'hostids' parameter requires 'id'"):
        client.call("listBulkDeployments", hostids=requested)


@pytest.fixture
def user(api_url: str, engine: Engine, cipher: FernetCipher) -> ApiClient:
    """A user whom a role rule lets deploy in bulk."""
    rules = (("*Deploy*", "allow"), ("list*", "allow"), ("query*", "allow"))
    role = add_role(engine, "bulk", "User", rules)
    found = add_user(engine, cipher, "bert", role_id=role)
    return ApiClient(api_url, found.api_key, found.secret_key)


def test_a_user_who_may_deploy_in_bulk_sees_no_infrastructure(
    user: ApiClient, zone: Zone, bulk: Bulk, nothing_written: TableChanges
) -> None:
    """As with single deployments: no pins, no planner of his own, no clusters, hosts or room in any answer."""
    own = {"account": None, "domainid": None}
    for pin, table, name in (
        ("podid", "pods", "pod-a"),
        ("clusterid", "clusters", "a-1"),
        ("hostids", "hosts", "a-1-1"),
    ):
        requested = zone.bulk_parameters(1, dryrun="true", **own, **{pin: zone.id_of(table, name)})
        with pytest.raises(ApiFailure, match=f"{pin} can only be specified by a Root Admin") as failure:
            user.call("bulkDeployVirtualMachine", **requested)
        assert failure.value.status == 531
    requested = zone.bulk_parameters(4, **own)
    assert user.call("bulkDeployVirtualMachine", **requested, dryrun="true") == {
        "plan": {"index": 1, "count": 4, "fits": 4}
    }
    assert nothing_written()
    user.call("bulkDeployVirtualMachine", **requested, deploymentplanner="FirstFitPlanner")
    assert sorted(zone.vms_per_cluster().values()) == [1, 1, 1, 1]
    shown = deployment(user)
    assert (shown["count"], OF_THE_INFRASTRUCTURE & set(shown)) == (4, set())
    with pytest.raises(ApiFailure, match="hostids can only be specified by a Root Admin"):
        user.call("listBulkDeployments", id=shown["id"], hostids=zone.id_of("hosts", "a-1-1"))
    with pytest.raises(ApiFailure) as failure:
        user.call("bulkDeployVirtualMachine", **{**requested, "virtualmachinecount": 4000})
    assert "ruled out" not in failure.value.errortext
    assert set(bulk(count=4, dryrun="true")["plan"]) >= OF_THE_INFRASTRUCTURE - {"hosts"}


def test_minimumcount_gives_way_to_limits(bulk: Bulk, client: ApiClient, zone: Zone, engine: Engine) -> None:
    """Ten are possible by the account's limit, eleven are asked for: with minimumcount=5 there are ten."""
    domain = zone.id_of("domains", "acme")
    client.call("updateResourceLimit", resourcetype=0, max=10, account="acme", domainid=domain)
    assert bulk(count=11, minimumcount=5, dryrun="true")["plan"]["fits"] == 10
    refused(bulk, 535, "'user_vm'", "= 11", count=12, minimumcount=11)
    assert bulk(count=11, minimumcount=5)["count"] == 10
    refused(bulk, 535, "Amount = 10", count=2, minimumcount=1)
    assert_intact(engine)


@pytest.mark.parametrize(
    ("resource_type", "limit"),
    [(2, 7), (8, 7), (9, 7 * 512 + 511), (10, 15)],
    ids=["volume", "cpu", "memory", "primary_storage"],
)
def test_minimumcount_gives_way_to_every_limit_above(
    bulk: Bulk, client: ApiClient, zone: Zone, resource_type: int, limit: int
) -> None:
    """Seven VMs are within the domain's limit, whichever resource is counted."""
    domain = zone.id_of("domains", "customers")
    client.call("updateResourceLimit", resourcetype=resource_type, max=limit, domainid=domain)
    assert bulk(count=9, minimumcount=7)["count"] == 7


def test_racing_batches_share_what_limits_leave(zone: Zone, client: ApiClient, engine: Engine) -> None:
    """Batches that accept fewer, racing for a limit of ten: together they get ten, and nobody a 530."""
    domain = zone.id_of("domains", "acme")
    client.call("updateResourceLimit", resourcetype=0, max=10, account="acme", domainid=domain)

    def call(_: int) -> int:
        answer = client.post("bulkDeployVirtualMachine", **zone.bulk_parameters(4, minimumcount=1))
        assert answer.status in (200, 535), answer.text
        return int(answer.body["count"]) if answer.status == 200 else 0

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(call, range(6))) == 10
    assert_intact(engine)


@pytest.mark.parametrize("by", ["admin", "user"])
def test_a_single_call_has_a_dry_run_too(
    client: ApiClient, user: ApiClient, zone: Zone, engine: Engine, nothing_written: TableChanges, by: str
) -> None:
    """The plan of a batch of one, as the caller may see it: no job, no row. Refusals are those of the call."""
    single = {name: value for name, value in zone.bulk_parameters(1).items() if name != "virtualmachinecount"}
    if by == "user":
        own = {name: value for name, value in single.items() if name not in ("account", "domainid")}
        assert user.call("deployVirtualMachine", **own, dryrun="true") == {
            "plan": {"index": 1, "count": 1, "fits": 1}
        }
    else:
        zone.change("UPDATE hosts SET state = 'Down' WHERE name = 'a-1-1'")
        hosts = f"{zone.id_of('hosts', 'a-1-1')},{zone.id_of('hosts', 'a-1-2')}"
        plan = client.call("deployVirtualMachine", **single, dryrun="true", hostids=hosts)["plan"]
        assert (plan["count"], plan["fits"], plan["planner"]) == (1, 1, "FirstFitPlanner")
        assert sum(cluster["added"] for cluster in plan["clusters"]) == 1
        assert [host.get("reason") for host in plan["hosts"]] == ["host_not_up", None]
        zone.change("UPDATE hosts SET state = 'Down'")
        with pytest.raises(ApiFailure, match="12 by host_not_up") as failure:
            client.call("deployVirtualMachine", **single, dryrun="true")
        assert failure.value.status == 533
    assert nothing_written()
    assert_intact(engine)


def test_a_dry_run_of_vms_that_are_not_started_tells_the_room(bulk: Bulk, nothing_written: TableChanges) -> None:
    """startvm=false claims no host: all are made, no cluster gets any, and the room there is, is told."""
    plan = bulk(count=3, startvm="false", dryrun="true")["plan"]
    started = bulk(count=3, dryrun="true")["plan"]
    assert (plan["fits"], plan["capacity"]) == (3, started["capacity"])
    assert Counter(cluster["added"] for cluster in plan["clusters"]) == Counter({0: 4})
    assert nothing_written()
