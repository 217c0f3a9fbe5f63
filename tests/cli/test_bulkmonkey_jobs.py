"""Jobs: waited for, followed, let go, explained; the exit status says how it went."""

import json
import re
import signal
from itertools import pairwise

import pytest

from tests.cli.conftest import Monkey
from tests.cli.recorded_answers import OFFERING, TEMPLATE, ZONE
from tests.cli.recorded_server import RecordedServer
from tests.support.runs.waiting import PATIENCE_S

ONE = ("deploy", "virtualmachine", f"zoneid={ZONE}", f"templateid={TEMPLATE}", f"serviceofferingid={OFFERING}")
BULK = ("bulkdeploy", "virtualmachine", *ONE[2:])

pytestmark = pytest.mark.parametrize("deployments", [False, True], ids=["upstream", "with deployments"])


@pytest.fixture(autouse=True)
def kind(recorded: RecordedServer, deployments: bool) -> None:
    """Both kinds of server: one that knows only jobs, one that knows deployments as a whole."""
    recorded.deployments = deployments


def test_a_job_is_waited_for(monkey: Monkey) -> None:
    """An asynchronous call ends when its job does, and prints the job's result."""
    done = monkey(*ONE, "name=web-1", "-q")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["virtualmachine"]["state"] == "Running"


def test_a_failed_job_ends_with_status_3(monkey: Monkey, recorded: RecordedServer) -> None:
    """A job that fails is one line on standard error with its reason and what would help; JSON with -o json."""
    recorded.jobs.failing = {0}
    done = monkey(*ONE)
    assert (done.status, done.out) == (3, "")
    assert "failed: Unable to create a deployment for VM instance (code 533). Free or add capacity" in done.err
    error = json.loads(monkey(*ONE, "-o", "json", "-q").err)
    assert error["errorcode"] == 533


def test_no_wait_leaves_at_once(monkey: Monkey, recorded: RecordedServer) -> None:
    """``--no-wait``, and the setting asyncblock, print the first answer and how to see the end."""
    recorded.jobs.rate = 0.001
    done = monkey(*ONE, "--no-wait")
    assert done.status == 0
    job = json.loads(done.out)["jobid"]
    assert f"bulkmonkey follow {job}" in done.err
    monkey("set", "asyncblock", "false")
    assert monkey(*BULK, "virtualmachinecount=3").status == 0
    assert not recorded.requested("queryAsyncJobResult")


def test_the_way_back_names_the_profile(monkey: Monkey, recorded: RecordedServer) -> None:
    """What is said to follow jobs again works as it stands, also where another profile is in use by default."""
    recorded.jobs.rate = 0.001
    monkey("set", "profile", "other")
    done = monkey(*BULK, "virtualmachinecount=30", "--no-wait", "-p", "lab")
    command = done.err.strip().splitlines()[-1].partition("bulkmonkey ")[2]
    recorded.jobs.batches[0].rate = 1000
    assert monkey(*command.split()).status == 0


def test_time_runs_out_with_status_4(monkey: Monkey, recorded: RecordedServer) -> None:
    """``--timeout`` ends waiting with status 4, and says that jobs go on and how to follow them."""
    recorded.jobs.rate = 0.001
    for words in (ONE, (*BULK, "virtualmachinecount=30")):
        done = monkey(*words, "--timeout", "1")
        assert done.status == 4
        assert "bulkmonkey follow" in done.err


def test_a_batch_is_followed_to_its_end(monkey: Monkey, recorded: RecordedServer) -> None:
    """A bulk call waits for all its jobs; programs get the finished jobs in order, people a summary."""
    done = monkey(*BULK, "virtualmachinecount=30")
    assert done.status == 0
    jobs = json.loads(done.out)
    assert jobs["count"] == 30
    batch = recorded.jobs.batches[0]
    assert [job["jobid"] for job in jobs["asyncjobs"]] == [batch.job_id(number) for number in range(30)]
    assert {job["jobstatus"] for job in jobs["asyncjobs"]} == {1}
    for text in ("30 of 30 jobs succeeded", "pod-a", "cluster-1", "skew", "Slowest"):
        assert text in done.err


def test_jobs_of_a_batch_are_shown_in_short(monkey: Monkey, recorded: RecordedServer) -> None:
    """One flat object per job: its VM, or the reason; ``--full`` is what the API says, a filter picks from both."""
    recorded.jobs.failing = {1}
    words = (*BULK, "virtualmachinecount=3", "-q")
    done = monkey(*words)
    assert len(done.out.splitlines()) < 30
    good, bad, _ = json.loads(done.out)["asyncjobs"]
    batch = recorded.jobs.batches[0]
    assert good == {
        "jobid": batch.job_id(0),
        "jobstatus": 1,
        "jobinstanceid": batch.vm_id(0),
        "name": f"vm-{batch.seed}-0",
        "state": "Running",
        "hostname": "kvm-1",
    }
    assert (bad["errorcode"], bad["errortext"]) == (533, "Unable to create a deployment for VM instance")
    (full, *_) = json.loads(monkey(*words, "--full").out)["asyncjobs"]
    assert full["jobresult"]["virtualmachine"]["zonename"] == "Demo"
    (picked, *_) = json.loads(monkey(*words, "filter=name,accountid").out)["asyncjobs"]
    assert set(picked) == {"name", "accountid"}


def test_requests_never_follow_each_other_quickly(monkey: Monkey, recorded: RecordedServer) -> None:
    """From the call to the summary, less than two requests a second: those for the summary's hosts count, too."""
    recorded.jobs.rate = 10
    monkey(*BULK, "virtualmachinecount=45")
    commands = [one.command for one in recorded.seen]
    following = recorded.seen[commands.index("bulkDeployVirtualMachine") + 1 :]
    assert len(following) > 3
    assert all(later.when - earlier.when > 0.5 for earlier, later in pairwise(following))


def test_a_batch_with_failures_ends_with_status_3(monkey: Monkey, recorded: RecordedServer) -> None:
    """Failures are listed with reasons as they come, grouped in the summary, and make the status 3."""
    recorded.jobs.failing = {4, 11}
    done = monkey(*BULK, "virtualmachinecount=30", "-o", "table")
    assert done.status == 3
    batch = recorded.jobs.batches[0]
    for number in (4, 11):
        assert f"failed: VM {batch.vm_id(number)}: Unable to create a deployment" in done.err
    assert "2 of 30 jobs failed" in done.err
    assert "28 of 30 jobs succeeded, 2 failed" in done.out
    assert done.out.count("Unable to create a deployment") == 1
    assert "\x1b" not in done.out
    assert done.out.isascii()


def test_cancelled_jobs_are_called_so(monkey: Monkey, recorded: RecordedServer) -> None:
    """Jobs that a cancelled deployment left out share a line, one at each poll that finds some; the status is 3."""
    recorded.jobs.failing = range(10, 30)
    recorded.jobs.reason = {"errorcode": 530, "errortext": "VM i-2-7-VM was not deployed: it was cancelled"}
    done = monkey(*BULK, "virtualmachinecount=30", "-o", "table")
    assert done.status == 3
    assert "failed" not in done.err.replace("0 failed", "").replace("20 failed", "")
    numbers = [int(number) for number in re.findall(r"cancelled before they began: (\d+) VM", done.err)]
    assert sum(numbers) == 20
    assert "20 of 30 jobs were cancelled" in done.err
    assert "10 of 30 jobs succeeded, 20 cancelled" in done.out


def test_ctrl_c_detaches_and_follow_attaches_again(monkey: Monkey, recorded: RecordedServer) -> None:
    """Ctrl-C leaves jobs alone, ends with 130 and says how to follow them; that command does."""
    recorded.jobs.rate = 2
    process = monkey.start(*BULK, "virtualmachinecount=21")
    poll = "listBulkDeployments" if recorded.deployments else "listAsyncJobs"
    while not recorded.requested(poll):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    command = err.strip().splitlines()[-1].partition("bulkmonkey ")[2]
    assert "Detached: the jobs continue." in err
    recorded.jobs.batches[0].rate = 1000
    again = monkey(*command.split())
    assert again.status == 0
    assert len(json.loads(again.out)["asyncjobs"]) == 21


def test_ctrl_c_while_one_job_runs_says_how_to_see_its_end(monkey: Monkey, recorded: RecordedServer) -> None:
    """Ctrl-C while one job is waited for ends with 130; ``follow JOB`` shows its result."""
    recorded.jobs.rate = 0.001
    process = monkey.start(*ONE)
    while not recorded.requested("queryAsyncJobResult"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    job = recorded.jobs.batches[0].job_id(0)
    assert process.returncode == 130
    assert f"bulkmonkey follow {job}" in err
    recorded.jobs.batches[0].rate = 1000
    assert json.loads(monkey("follow", job).out)["virtualmachine"]["state"] == "Running"


def test_several_jobs_are_followed_together(monkey: Monkey, recorded: RecordedServer) -> None:
    """``follow`` takes any job ids."""
    for _ in range(2):
        monkey(*ONE, "--no-wait")
    ids = [batch.job_id(0) for batch in recorded.jobs.batches]
    assert len(json.loads(monkey("follow", *ids).out)["asyncjobs"]) == 2


def test_following_outlives_a_server_that_is_away(monkey: Monkey, recorded: RecordedServer) -> None:
    """While jobs are waited for, a server that answers with errors of the passing kind is asked again."""
    monkey("sync")
    recorded.faults.extend([("queryAsyncJobResult", 503, "<html>restarting</html>")] * 2)
    assert monkey(*ONE).status == 0


def test_explain_says_where_a_vm_went(monkey: Monkey) -> None:
    """``explain JOB`` names host, cluster and pod of the job's VM."""
    job = json.loads(monkey(*ONE, "name=web-1", "--no-wait").out)["jobid"]
    monkey("follow", job)
    facts = json.loads(monkey("explain", job).out)["job"]
    expected = {"name": "web-1", "hostname": "kvm-1", "clustername": "cluster-1", "podname": "pod-a"}
    assert expected.items() <= facts.items()
    text = monkey("explain", job, "-o", "table").out
    assert "VM web-1: succeeded" in text
    assert "Where: host kvm-1, cluster cluster-1, pod pod-a, zone Demo" in text


def test_explain_says_what_would_help(monkey: Monkey, recorded: RecordedServer) -> None:
    """``explain JOB`` of a failed job says why, and what would help."""
    recorded.jobs.failing = {0}
    monkey(*ONE)
    text = monkey("explain", recorded.jobs.batches[0].job_id(0), "-o", "table").out
    assert "Why: Unable to create a deployment for VM instance (code 533)" in text
    assert "Remedy: Free or add capacity" in text


def test_explaining_what_is_not_known_is_an_api_error(monkey: Monkey) -> None:
    """The error names what was looked for, whether the word is an id or a name."""
    done = monkey("explain", "00000000-0000-4000-8000-000000000000")
    assert done.status == 1
    assert "HTTP 431" in done.err
    assert "No deployment, job or VM that this user may see has this id" in done.err
    named = monkey("explain", "no-such-vm")
    assert (named.status, "there is no object called 'no-such-vm'" in named.err) == (2, True)


def test_a_pipe_that_closes_early_is_no_error(monkey: Monkey) -> None:
    """``| head`` ends quietly."""
    monkey("sync")
    process = monkey.start("list", "events")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
