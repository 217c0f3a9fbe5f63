"""Rules and strategies are found, each in its file, and those of other distributions join by an entry point."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bulkdeploy.domain.configuration import BY_NAME
from bulkdeploy.placement import planner
from bulkdeploy.placement.catalog import DuplicateName, PlacementCatalog, PlannerNotInstalled
from bulkdeploy.placement.rule import Rule
from bulkdeploy.placement.strategies import count_dispersing, first_fit, implicit_dedication
from bulkdeploy.scheduling.catalog import placement_catalog, settings_by_name
from bulkdeploy.scheduling.reasons import excluded_rows, in_words
from tests.placement.zone_builder import even_zone, per_host, request

pytestmark = pytest.mark.long

ODD_HOSTS = Rule(
    reason="odd_host", text="its number is odd", remedy="add even hosts", order=55,
    excludes_hosts=lambda zone, _: zone.hosts.id % 2 == 1,
)  # fmt: skip


def rules() -> list[Rule]:
    """The rules that files declare."""
    brought = set(implicit_dedication.STRATEGY.rules)
    return [rule for rule in placement_catalog().rules.values() if rule not in brought]


def test_every_rule_says_what_it_means_and_what_would_help() -> None:
    """No reason goes without a text or a remedy, and no two rules claim one turn."""
    found = placement_catalog().rules
    assert {"host_tags", "occupied_by_others", "cluster_threshold"} <= set(found)
    assert [reason for reason, rule in found.items() if not (rule.text and rule.remedy)] == []
    orders = [rule.order for rule in found.values()]
    assert orders == sorted(set(orders))


def test_one_more_rule_is_one_object() -> None:
    """A rule that nobody else names excludes hosts, in its turn, and is told with its text and remedy."""
    catalog = PlacementCatalog([*rules(), ODD_HOSTS], [count_dispersing.STRATEGY])
    zone = even_zone(clusters=1, hosts=4)
    zone.host(11).up, zone.host(13).enabled = False, False
    made = planner.plan(zone.snapshot(), request(99), catalog)
    assert set(per_host(made)) == {12, 14}
    assert list(made.excluded.items()) == [("host_not_up", 1), ("odd_host", 1)]


def test_a_lasting_rule_bounds_hosts_too() -> None:
    """What it says of hosts that it does not exclude counts, whether it excludes any or none."""
    bounding = replace(ODD_HOSTS, lasting=True, host_capacity=lambda zone, _: zone.hosts.id % 10)
    catalog = PlacementCatalog([*rules(), bounding], [count_dispersing.STRATEGY])
    assert per_host(planner.plan(even_zone(clusters=1, hosts=3).snapshot(), request(99), catalog)) == {12: 2}
    catalog = PlacementCatalog([*rules(), replace(bounding, excludes_hosts=None)], [count_dispersing.STRATEGY])
    made = planner.plan(even_zone(clusters=1, hosts=3).snapshot(), request(99), catalog)
    assert per_host(made) == {11: 1, 12: 2, 13: 3}


def test_one_more_strategy_is_one_object() -> None:
    """Its planners are there, behind those of lower order, and what its rules exclude is excluded with it alone."""
    mine = replace(first_fit.STRATEGY, planners=("MinePlanner", "AlsoMinePlanner"), order=15, rules=(ODD_HOSTS,))
    catalog = PlacementCatalog(rules(), [count_dispersing.STRATEGY, mine, first_fit.STRATEGY])
    assert catalog.planners == ("FirstFitPlanner", "MinePlanner", "AlsoMinePlanner", "UserDispersingPlanner")
    snapshot = even_zone(clusters=2, hosts=2).snapshot()
    made = planner.plan(snapshot, request(8, planner="AlsoMinePlanner"), catalog)
    assert per_host(made) == {12: 4, 22: 4}
    assert planner.plan(snapshot, request(16), catalog).placed == 16
    beside = planner.plan(snapshot, request(16, offering_planner="MinePlanner"), catalog)
    assert (per_host(beside), beside.excluded) == ({12: 4, 22: 4}, {"odd_host": 2})


def test_names_are_there_once() -> None:
    """Two rules of one reason, or two strategies with one planner, are refused by name."""
    twice = replace(ODD_HOSTS, reason="cpu")
    with pytest.raises(DuplicateName, match="'cpu'"):
        PlacementCatalog([*rules(), twice], [count_dispersing.STRATEGY])
    with pytest.raises(DuplicateName, match="'FirstFitPlanner'"):
        PlacementCatalog(rules(), [first_fit.STRATEGY, replace(first_fit.STRATEGY, order=1)])


def test_a_planner_that_is_gone_is_named() -> None:
    """An offering may name a planner that was installed once: the refusal says which there are."""
    with pytest.raises(PlannerNotInstalled, match="OursPlanner is not installed; installed are: FirstFitPlanner"):
        planner.plan(even_zone(1, 1).snapshot(), request(1, planner="OursPlanner"), placement_catalog())


def test_settings_choose_what_there_is() -> None:
    """The settings of planner and host algorithm offer what is found, their defaults among it."""
    for name in ("vm.deployment.planner", "vm.allocation.algorithm"):
        assert BY_NAME[name].choices == ()
        assert BY_NAME[name].default in settings_by_name()[name].choices
    assert settings_by_name()["vm.deployment.planner"].choices == placement_catalog().planners


def test_a_reason_whose_rule_is_gone_is_still_shown() -> None:
    """Deployments keep the codes of rules that left with their distribution."""
    assert excluded_rows({"odd_host": 2}) == [{"reason": "odd_host", "text": "odd host", "remedy": "", "hosts": 2}]
    assert in_words({"out_of_scope": 9, "odd_host": 2}) == "hosts ruled out: 2 by odd_host: odd host"
    assert in_words({}) == ""


STRATEGY = """
from bulkdeploy.placement.strategy import Strategy, one_after_the_other
import numpy as np

LAST_FIRST = Strategy(
    planners=("LastFirstPlanner",),
    description="clusters with the highest id come first",
    filling=lambda clusters, *, pods_first: one_after_the_other(np.argsort(-clusters.id)),
)
"""
REQUESTED = """
import json
from bulkdeploy.scheduling.catalog import placement_catalog, settings_by_name
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.placement.planner import plan
from tests.placement.zone_builder import even_zone, per_cluster, request
parameters = {one.name: one.choices for one in find_commands()["bulkDeployVirtualMachine"].parameters}
made = plan(even_zone(2, 2).snapshot(), request(9, planner="LastFirstPlanner"), placement_catalog())
print(json.dumps({
    "listed": placement_catalog().planners,
    "parameter": parameters["deploymentplanner"],
    "setting": settings_by_name()["vm.deployment.planner"].choices,
    "placed": per_cluster(made),
}))
"""


def installed(folder: Path, entry_point: str) -> Mapping[str, str]:
    """The environment of a process in which a distribution with a strategy is installed."""
    (folder / "last_first.py").write_text(STRATEGY)
    info = folder / "last_first-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: last-first\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[bulkdeploy.strategies]\nlast-first = last_first:{entry_point}\n")
    return {"PYTHONPATH": f"{folder}:{Path(__file__).parents[2]}"}


def test_a_strategy_of_another_distribution_joins(tmp_path: Path) -> None:
    """Installed, it is a choice of calls and settings, places VMs, and stands behind those of the house."""
    done = subprocess.run(
        [sys.executable, "-c", REQUESTED], env=installed(tmp_path, "LAST_FIRST"), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["listed"] == [*placement_catalog().planners, "LastFirstPlanner"]
    assert reported["listed"] == reported["parameter"] == reported["setting"]
    assert reported["placed"] == {"2": 8, "1": 1}


@pytest.mark.parametrize("entry_point", ["np", "Nothing"])
def test_what_is_no_strategy_keeps_the_process_from_starting(tmp_path: Path, entry_point: str) -> None:
    """An entry point that is missing or names something else is told by its name."""
    done = subprocess.run(
        [sys.executable, "-c", REQUESTED], env=installed(tmp_path, entry_point), capture_output=True, text=True
    )
    assert done.returncode != 0
    assert entry_point in done.stderr.splitlines()[-1]
