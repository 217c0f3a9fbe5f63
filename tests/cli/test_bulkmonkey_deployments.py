"""Deployments as a whole, on a server that knows them: plans, explanations, finding them again."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Monkey
from tests.cli.recorded_answers import OFFERING, TEMPLATE, ZONE
from tests.cli.recorded_server import RecordedServer

BULK = (
    "bulkdeploy",
    "virtualmachine",
    f"zoneid={ZONE}",
    f"templateid={TEMPLATE}",
    f"serviceofferingid={OFFERING}",
)


@pytest.fixture(autouse=True)
def deployments(recorded: RecordedServer) -> None:
    """The server knows deployments as a whole."""
    recorded.deployments = True


def test_a_plan_is_a_table(monkey: Monkey) -> None:
    """``dryrun=true`` shows what each cluster would get, and why hosts would get nothing."""
    done = monkey(*BULK, "virtualmachinecount=31", "dryrun=true", "-o", "table")
    assert done.status == 0
    for text in (
        "All 31 VMs fit",
        "Nothing was deployed",
        "cluster-full",
        "too little memory is free",
        "moon phase",
    ):
        assert text in done.out
    short = monkey(*BULK, "virtualmachinecount=40000", "dryrun=true", "-o", "table")
    assert "Only 30000 of 40000 VMs fit" in short.out


def test_a_plan_is_rows_for_programs(monkey: Monkey) -> None:
    """CSV has a row per cluster, json the plan as it was answered."""
    call = (*BULK, "virtualmachinecount=31", "dryrun=true")
    read = list(csv.DictReader(io.StringIO(monkey(*call, "-o", "csv", "filter=clustername,added").out)))
    assert [row["added"] for row in read] == ["11", "10", "10", "0"]
    assert json.loads(monkey(*call).out)["plan"]["fits"] == 31


def test_explain_says_why_each_cluster_got_its_vms(monkey: Monkey, recorded: RecordedServer) -> None:
    """``explain DEPLOYMENT`` says why per cluster, groups failures, and has a row per VM."""
    recorded.jobs.failing = {3}
    monkey(*BULK, "virtualmachinecount=30")
    deployment = recorded.jobs.batches[0].deployment
    text = monkey("explain", deployment, "-o", "table").out
    for part in ("Completed, 29 of 30 jobs succeeded, 1 failed", "no room for another such VM", "filled first"):
        assert part in text
    facts = json.loads(monkey("explain", deployment).out)
    assert [group["failed"] for group in facts["failures"]] == [1]
    rows = list(csv.DictReader(io.StringIO(monkey("explain", deployment, "-o", "csv").out)))
    assert len(rows) == 30
    assert {row["clustername"] for row in rows} == {"cluster-1", "cluster-2", "cluster-3", ""}


def test_explaining_a_job_says_why_its_cluster(monkey: Monkey, recorded: RecordedServer) -> None:
    """A job of a deployment is explained with the deployment's spread."""
    monkey(*BULK, "virtualmachinecount=6")
    text = monkey("explain", recorded.jobs.batches[0].job_id(0), "-o", "table").out
    assert "Why there: the owner had no VMs here" in text


def test_follow_alone_takes_the_newest_in_progress(monkey: Monkey, recorded: RecordedServer) -> None:
    """``follow`` without a name follows the deployment under way; without one it is a usage error."""
    assert monkey("follow").status == 2
    recorded.jobs.rate = 20
    monkey(*BULK, "virtualmachinecount=40", "--no-wait")
    done = monkey("follow")
    assert done.status == 0
    assert recorded.jobs.batches[0].deployment in done.err


def test_a_deployments_spread_stands_in_the_summary(monkey: Monkey) -> None:
    """The summary has VMs per pod and cluster before, added and after, and the skew."""
    done = monkey(*BULK, "virtualmachinecount=30", "-o", "table", "-q")
    assert done.status == 0
    rows = [[cell.strip() for cell in line.split("|")] for line in done.out.splitlines()]
    assert ["", "pod-a", "cluster-2", "1", "10", "11", "9990", ""] in rows
    assert ["", "pod-a", "3", "3", "30", "33", ""] in rows
    assert "skew 2" in done.out


def test_what_a_second_plan_would_change(monkey: Monkey, tmp_path: Path) -> None:
    """``difference`` of two saved dry runs: hosts that get more or fewer VMs, and VMs that go elsewhere."""
    deploying = [
        [{"hostname": "kvm-1", "count": 2}, {"hostname": "kvm-2", "count": 1}],
        [{"hostname": "kvm-2", "count": 1}, {"hostname": "kvm-3", "count": 2}],
    ]
    first, second = (tmp_path / "first.json", tmp_path / "second.json")
    for path, hosts in zip((first, second), deploying, strict=True):
        path.write_text(json.dumps({"plan": {"placedhosts": hosts}}))
    words = [line.split() for line in monkey("difference", str(first), str(second), "-o", "table").out.splitlines()]
    cells = [[word for word in line if word != "|"] for line in words]
    assert ["-2", "kvm-1", "+2", "+0"] in cells
    assert ["+2", "kvm-3", "+0", "+2"] in cells
    assert "kvm-2" not in str(cells)
    assert "nothing" in monkey("difference", str(first), str(first), "-o", "table").out
    for path, host in ((first, "kvm-2"), (second, "kvm-3")):
        move = {"virtualmachinename": "vm-1", "fromhostname": "kvm-1", "hostname": host}
        path.write_text(json.dumps({"balanceplan": {"move": [move]}}))
    assert json.loads(monkey("difference", str(first), str(second), "-o", "json").out) == {
        "host": [
            {"hostname": "kvm-2", "first": 1, "second": 0, "change": -1},
            {"hostname": "kvm-3", "first": 0, "second": 1, "change": 1},
        ],
        "virtualmachine": [{"virtualmachinename": "vm-1", "first": "kvm-2", "second": "kvm-3"}],
    }
    (tmp_path / "list.json").write_text("[]")
    for path in (tmp_path / "list.json", tmp_path / "none.json"):
        wrong = monkey("difference", str(first), str(path))
        assert (wrong.status, path.name in wrong.err) == (2, True)
    assert monkey("difference", str(first)).status == 2
