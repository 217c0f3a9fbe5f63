"""What bulkDeployVirtualMachine answers and writes when it accepts (cloudstack-protocol.md 0.5 to 0.7)."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from bulkdeploy.api.app import create_app
from bulkdeploy.queue.celery_queue import CeleryJobQueue
from bulkdeploy.services.system import System
from bulkdeploy.store.auditing.audit import check_invariants
from tests.commands.deployments.conftest import TableChanges
from tests.commands.deployments.test_bulk_rules import refused
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.api.api_server import serving
from tests.support.zones.zone_queries import Zone

Bulk = Callable[..., dict[str, Any]]


def assert_intact(engine: Engine) -> None:
    """No invariant of the ledger is broken."""
    assert {finding.name: finding.breaches for finding in check_invariants(engine) if finding.breaches} == {}


def test_one_job_per_vm_in_creation_order(bulk: Bulk, zone: Zone, engine: Engine) -> None:
    """The answer is count and one pending job object per VM, mapped to it by jobinstanceid."""
    answer = bulk(count=7)
    assert set(answer) == {"count", "asyncjobs"}
    jobs = answer["asyncjobs"]
    assert (answer["count"], len(jobs)) == (7, 7)
    vms = [str(row.uuid) for row in zone.rows("SELECT uuid FROM virtual_machines ORDER BY id")]
    assert [job["jobinstanceid"] for job in jobs] == vms
    assert len({job["jobid"] for job in jobs}) == 7
    assert {(job["jobstatus"], job["jobprocstatus"], job["jobresultcode"]) for job in jobs} == {(0, 0, 0)}
    assert {job["jobinstancetype"] for job in jobs} == {"VirtualMachine"}
    assert {job["cmd"].rsplit(".", 1)[1] for job in jobs} == {"DeployVMCmdByAdmin"}
    assert len({job["deploymentid"] for job in jobs}) == 1
    assert_intact(engine)


def test_vms_are_visible_at_once_and_stopped(bulk: Bulk, client: ApiClient) -> None:
    """Before any job has run, listVirtualMachines shows all VMs, Stopped, each with its own address."""
    bulk(count=5)
    rows = client.call("listVirtualMachines", listall=True)["virtualmachine"]
    assert [row["state"] for row in rows] == ["Stopped"] * 5
    assert len({row["nic"][0]["ipaddress"] for row in rows}) == 5
    assert len({row["nic"][0]["macaddress"] for row in rows}) == 5
    assert len({row["name"] for row in rows}) == 5
    assert {row["account"] for row in rows} == {"acme"}


def test_dispersion_is_by_count_over_clusters(bulk: Bulk, zone: Zone) -> None:
    """2 x clusters - 1 VMs end within one of the mean (the upstream test's promise)."""
    bulk(count=7)
    assert sorted(zone.vms_per_cluster().values()) == [1, 2, 2, 2]


def test_dispersion_levels_what_the_owner_has(bulk: Bulk, zone: Zone) -> None:
    """VMs that the owner has already count: the batch fills up the emptier clusters first."""
    bulk(count=6, clusterid=zone.id_of("clusters", "a-1"))
    bulk(count=6, clusterid=zone.id_of("clusters", "b-2"))
    bulk(count=8)
    assert zone.vms_per_cluster() == Counter({"a-1": 6, "a-2": 4, "b-1": 4, "b-2": 6})


def test_dispersion_over_pods_where_the_setting_says_so(bulk: Bulk, zone: Zone, client: ApiClient) -> None:
    """With apply.allocation.algorithm.to.pods, pods are levelled first, then the clusters of each."""
    client.call("updateConfiguration", name="apply.allocation.algorithm.to.pods", value="true")
    bulk(count=4, clusterid=zone.id_of("clusters", "a-1"))
    bulk(count=6)
    counts = zone.vms_per_cluster()
    assert (counts["a-1"] + counts["a-2"], counts["b-1"] + counts["b-2"]) == (5, 5)
    assert sorted((counts["b-1"], counts["b-2"])) == [2, 3]


@pytest.mark.parametrize(
    ("parameter", "table", "name"), [("podid", "pods", "pod-b"), ("clusterid", "clusters", "b-1")]
)
def test_a_pinned_pod_or_cluster_is_considered_alone(
    bulk: Bulk, zone: Zone, parameter: str, table: str, name: str
) -> None:
    """All VMs go where the call says, and the deployment is marked so that no retry leaves it."""
    bulk(count=4, **{parameter: zone.id_of(table, name)})
    counts = zone.vms_per_cluster()
    inside = {"b-1": 4, "b-2": 0} if parameter == "clusterid" else {"b-1": 2, "b-2": 2}
    assert counts == Counter({"a-1": 0, "a-2": 0, **inside})
    assert zone.scalar("SELECT pinned FROM deployments") is True


def test_limits_hold_for_the_whole_batch(
    bulk: Bulk, client: ApiClient, zone: Zone, nothing_written: TableChanges
) -> None:
    """A batch that would pass the account's limit is refused whole, with limit, current and requested."""
    domain = zone.id_of("domains", "acme")
    client.call("updateResourceLimit", resourcetype=0, max=10, account="acme", domainid=domain)
    nothing_written.mark()
    failure = refused(bulk, 535, "'user_vm'", "Account Name = acme", "Limit = 10", "Amount = 0", "= 11", count=11)
    assert failure.cserrorcode == 4370
    assert nothing_written()
    bulk(count=10)
    refused(bulk, 535, "Amount = 10", count=1)


@pytest.mark.parametrize(
    ("resource_type", "name", "limit"),
    [(0, "user_vm", 3), (2, "volume", 3), (8, "cpu", 3), (9, "memory", 3 * 512), (10, "primary_storage", 7)],
)
def test_limits_of_parent_domains_hold(
    bulk: Bulk,
    client: ApiClient,
    zone: Zone,
    nothing_written: TableChanges,
    resource_type: int,
    name: str,
    limit: int,
) -> None:
    """Every limited resource is checked against the domains above the account too."""
    domain = zone.id_of("domains", "customers")
    client.call("updateResourceLimit", resourcetype=resource_type, max=limit, domainid=domain)
    nothing_written.mark()
    refused(bulk, 535, f"domain resource limits of Type '{name}'", domain, count=4)
    assert nothing_written()
    assert bulk(count=3)["count"] == 3


def test_a_full_zone_is_refused_with_reasons(bulk: Bulk, zone: Zone, nothing_written: TableChanges) -> None:
    """Not enough room: 533, how many would fit, and which rules ruled hosts out."""
    zone.change("UPDATE hosts SET resource_state = 'Maintenance' WHERE name LIKE 'a-%'")
    zone.change("UPDATE hosts SET state = 'Down' WHERE name LIKE 'b-1-%'")
    zone.change("UPDATE host_capacity SET vms_limit = 2")
    failure = refused(bulk, 533, "6 would fit", "6 by host_not_enabled", "3 by host_not_up", count=7)
    assert failure.cserrorcode == 4335
    zone.change("UPDATE host_capacity SET vms_limit = 100")
    assert nothing_written()


def test_fewer_are_accepted_with_minimumcount(bulk: Bulk, zone: Zone, engine: Engine) -> None:
    """With minimumcount as many as fit are made, and not fewer than that."""
    zone.change("UPDATE host_capacity SET vms_limit = 1")
    refused(bulk, 533, "12 would fit", count=20, minimumcount=13)
    assert bulk(count=20, minimumcount=12)["count"] == 12
    assert_intact(engine)


def test_minimumcount_holds_for_addresses_too(bulk: Bulk, zone: Zone, engine: Engine) -> None:
    """A network that runs out of addresses bounds the batch like any other room."""
    zone.change("UPDATE ip_ranges SET end_ip = next_ip + 4")
    refused(bulk, 533, "5 free address", count=6)
    assert bulk(count=6, minimumcount=5)["count"] == 5
    assert zone.scalar("SELECT asked_count FROM deployments") == 6
    assert_intact(engine)


def test_strict_anti_affinity_holds_in_a_batch(bulk: Bulk, zone: Zone, engine: Engine) -> None:
    """Each VM of an anti-affinity group gets a host of its own; more VMs than hosts are refused."""
    refused(bulk, 533, "12 would fit", "affinity groups", count=13, affinitygroupnames="apart")
    bulk(count=12, affinitygroupnames="apart")
    assert zone.scalar("SELECT count(DISTINCT host_id) FROM virtual_machines") == 12
    assert_intact(engine)


def test_host_affinity_keeps_a_batch_together(bulk: Bulk, zone: Zone) -> None:
    """VMs of a host-affinity group share a host, across calls."""
    bulk(count=3, affinitygroupids=zone.id_of("affinity_groups", "together"))
    bulk(count=2, affinitygroupnames="together")
    assert zone.scalar("SELECT count(DISTINCT host_id) FROM virtual_machines") == 1


def test_dedicated_hosts_are_for_their_owner(bulk: Bulk, zone: Zone) -> None:
    """Hosts dedicated to another domain are not used; the owner reaches its own by the dedication group."""
    zone.change(
        "INSERT INTO dedicated_resources (cluster_id, domain_id) SELECT c.id, d.id FROM clusters c, domains d"
        " WHERE (c.name, d.path) IN (('a-1', 'ROOT/customers/acme'))"
    )
    zone.change(
        "INSERT INTO affinity_groups (name, affinity_type, account_id, domain_id)"
        " SELECT 'reserved', 'ExplicitDedication', id, domain_id FROM accounts WHERE name = 'acme'"
    )
    bulk(count=6)
    assert zone.vms_per_cluster()["a-1"] == 0
    bulk(count=2, affinitygroupnames="reserved")
    assert zone.vms_per_cluster()["a-1"] == 2


def test_dry_run_shows_the_plan_and_keeps_nothing(bulk: Bulk, nothing_written: TableChanges) -> None:
    """dryrun=true answers what each cluster would get, and nothing is written."""
    plan = bulk(count=7, dryrun="true")["plan"]
    assert (plan["count"], plan["fits"], plan["skew"]) == (7, 7, 1)
    assert sorted(cluster["added"] for cluster in plan["clusters"]) == [1, 2, 2, 2]
    assert nothing_written()


def _names(zone: Zone) -> list[str]:
    return [row.name for row in zone.rows("SELECT name FROM virtual_machines ORDER BY id")]


def test_names_of_a_prefix_count_from_one(bulk: Bulk, client: ApiClient, zone: Zone) -> None:
    """The first numbers that are free in the network, whoever has the others and in whatever case."""
    bulk(count=3, nameprefix="web")
    bulk(count=2, nameprefix="web")
    single = {key: value for key, value in zone.bulk_parameters(1).items() if key != "virtualmachinecount"}
    client.call("deployVirtualMachine", **single, name="WEB-7")
    bulk(count=4, nameprefix="web")
    assert _names(zone) == [*(f"web-{n}" for n in (1, 2, 3, 4, 5)), "WEB-7", *(f"web-{n}" for n in (6, 8, 9, 10))]
    gone = zone.scalar("SELECT uuid FROM virtual_machines WHERE name = 'web-2'")
    zone.change("UPDATE virtual_machines SET state = 'Destroyed' WHERE uuid = :id", id=gone)
    zone.change("UPDATE nics SET vm_name = NULL WHERE vm_name = 'web-2'")
    bulk(count=2, nameprefix="web")
    assert _names(zone)[-2:] == ["web-2", "web-11"]
    refused(bulk, 431, "nameprefix", "letter", nameprefix="-web")


def test_racing_calls_share_the_numbers_of_a_prefix(zone: Zone, client: ApiClient, engine: Engine) -> None:
    """Batches and single calls that want the same names at the same moment all get VMs, each a name of its own."""
    zone.change("UPDATE networks SET guest_type = 'L2'")  # where nothing else has deployments wait for each other
    plain = {"templateid": zone.id_of("templates", "Any hypervisor"), "hypervisor": "KVM"}
    single = {key: value for key, value in zone.bulk_parameters(1, **plain).items() if key != "virtualmachinecount"}

    def call(number: int) -> int:
        if number % 2:
            return client.get("deployVirtualMachine", **single, name=f"web-{number * 2}").status
        return client.get("bulkDeployVirtualMachine", **zone.bulk_parameters(5, **plain, nameprefix="web")).status

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(call, range(12)))
    batches, singles = statuses[::2], statuses[1::2]
    assert batches == [200] * 6
    assert set(singles) <= {200, 431}
    names = _names(zone)
    assert len({name.lower() for name in names}) == len(names) == 30 + singles.count(200)
    given = {f"web-{number * 2}" for number, status in enumerate(statuses) if number % 2 and status == 200}
    numbers = sorted(int(name.removeprefix("web-")) for name in names if name not in given)
    assert len(numbers) == 30
    assert numbers[-1] <= 30 + len(given)
    assert_intact(engine)


def test_startvm_false_claims_no_host(bulk: Bulk, zone: Zone, engine: Engine) -> None:
    """VMs that are not to be started hold no host, but their limits and addresses."""
    bulk(count=3, startvm="false")
    assert zone.scalar("SELECT count(*) FROM host_claims") == 0
    assert (
        zone.scalar(
            "SELECT amount FROM resource_counts WHERE owner_kind = 'domain' AND resource_type = 0"
            " ORDER BY owner_id DESC LIMIT 1"
        )
        == 3
    )
    assert_intact(engine)


def test_a_data_disk_counts_as_a_second_volume(bulk: Bulk, zone: Zone, engine: Engine) -> None:
    """With a disk offering each VM gets two volumes, each with a pool of its own claim."""
    bulk(count=2, diskofferingid=zone.id_of("disk_offerings", "20 GiB"))
    assert zone.scalar("SELECT count(*) FROM storage_claims") == 4
    assert_intact(engine)


def test_two_bulk_calls_at_once_spread_like_one(
    zone: Zone, system: System, client: ApiClient, engine: Engine
) -> None:
    """Two calls from two API servers end as even as one call of the sum."""
    barrier = threading.Barrier(2)
    with serving(create_app(system)) as other_url:
        callers = [client, ApiClient(other_url, client.api_key, client.secret_key)]

        def call(caller: ApiClient) -> int:
            barrier.wait()
            return int(caller.call("bulkDeployVirtualMachine", **zone.bulk_parameters(9))["count"])

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(call, callers)) == [9, 9]
    assert sorted(zone.vms_per_cluster().values()) == [4, 4, 5, 5]
    assert_intact(engine)


def test_racing_calls_never_pass_a_limit_or_the_room(zone: Zone, client: ApiClient, engine: Engine) -> None:
    """Bulk and single deployments racing for the last places: exactly what fits is accepted."""
    zone.change("UPDATE host_capacity SET vms_limit = 2")
    single = {name: value for name, value in zone.bulk_parameters(1).items() if name != "virtualmachinecount"}

    def call(number: int) -> int:
        try:
            if number % 2:
                return int(client.call("bulkDeployVirtualMachine", **zone.bulk_parameters(3))["count"])
            client.call("deployVirtualMachine", **single)
        except ApiFailure as failure:
            if failure.status != 533:
                raise
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        made = sum(pool.map(call, range(24)))
    assert made == zone.scalar("SELECT count(*) FROM virtual_machines") == 24
    assert_intact(engine)


def test_jobs_wait_in_the_outbox_when_the_courier_is_gone(
    zone: Zone, system: System, client: ApiClient, engine: Engine
) -> None:
    """A call that cannot be sent is answered all the same; the sweeper finds it in the outbox."""
    client.call("bulkDeployVirtualMachine", **zone.bulk_parameters(2))
    assert zone.scalar("SELECT count(*) FROM outbox") == 0
    unreachable = CeleryJobQueue("redis://127.0.0.1:1/0")
    with serving(create_app(replace(system, job_queue=unreachable))) as url:
        cut_off = ApiClient(url, client.api_key, client.secret_key)
        assert cut_off.call("bulkDeployVirtualMachine", **zone.bulk_parameters(3))["count"] == 3
    assert zone.scalar("SELECT count(*) FROM outbox") == 3
    assert_intact(engine)
