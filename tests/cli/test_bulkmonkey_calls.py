"""Commands of another server's API: how they are spelled, what is sent, what is printed."""

import csv
import io
import json
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Monkey
from tests.cli.recorded_answers import NETWORKS, OFFERING, OTHER_ZONE, TEMPLATE, ZONE
from tests.cli.recorded_server import RecordedServer

BULK = (f"zoneid={ZONE}", f"templateid={TEMPLATE}", f"serviceofferingid={OFFERING}")


@pytest.mark.parametrize(
    "words",
    [
        ("bulk", "deployvirtualmachine"),
        ("bulkdeploy", "virtualmachine"),
        ("bulkDeployVirtualMachine",),
        ("BULKDEPLOY", "VirtualMachine"),
        ("api", "bulkDeployVirtualMachine"),
    ],
)
def test_every_spelling_calls_the_same_api(
    monkey: Monkey, recorded: RecordedServer, words: tuple[str, ...]
) -> None:
    """CloudMonkey's spellings of a command, and version 5's, are sent by the name listApis gave."""
    done = monkey(*words, *BULK, "virtualmachinecount=2", "--no-wait")
    assert done.status == 0
    assert recorded.requested("bulkDeployVirtualMachine")[0]["virtualmachinecount"] == "2"
    assert len(json.loads(done.out)["asyncjobs"]) == 2


def test_lists_print_what_is_inside_the_envelope(monkey: Monkey) -> None:
    """Without a terminal the answer is JSON, with nothing else on standard output."""
    done = monkey("list", "zones")
    assert done.status == 0
    assert json.loads(done.out)["zone"][0]["name"] == "Demo"


def test_filter_picks_fields_in_their_order(monkey: Monkey) -> None:
    """``filter=`` picks fields of lists and single objects and gives columns their order."""
    assert monkey("list", "zones", "filter=name,id", "-o", "csv").out.splitlines()[:2] == [
        "name,id",
        f"Demo,{ZONE}",
    ]
    updated = json.loads(monkey("update", "zone", f"id={ZONE}", "filter=allocationstate").out)
    assert updated == {"zone": {"allocationstate": "Enabled"}}


def test_a_field_that_does_not_exist_is_named(monkey: Monkey) -> None:
    """A ``filter=`` with a field that the API does not answer is said on standard error."""
    done = monkey("list", "zones", "filter=id,nmae,STATE")
    assert done.status == 0
    assert "listZones answers no nmae; list zones -h lists its fields" in done.err


def test_every_format_holds_the_same_rows(monkey: Monkey) -> None:
    """json, yaml, csv, column, text and table say the same of the same answer."""
    rows = json.loads(monkey("list", "hosts").out)["host"]
    assert yaml.safe_load(monkey("list", "hosts", "-o", "yaml").out)["host"] == rows
    read = list(csv.DictReader(io.StringIO(monkey("list", "hosts", "-o", "csv").out)))
    assert [row["id"] for row in read] == [row["id"] for row in rows]
    for output in ("column", "text", "table"):
        text = monkey("list", "hosts", "-o", output).out
        assert all(text.count(row["id"]) == 1 for row in rows)


def test_plain_output_is_stable_and_without_escapes(monkey: Monkey) -> None:
    """Without a terminal there are no colours, and what servers put into names cannot act on a terminal."""
    for output in ("table", "column", "text"):
        first, second = monkey("list", "zones", "-o", output), monkey("list", "zones", "-o", output)
        assert first.out == second.out
        assert "\x1b" not in first.out


def test_nothing_found_prints_nothing(monkey: Monkey) -> None:
    """An empty list prints nothing and is no error."""
    done = monkey("list", "virtualmachines")
    assert (done.status, done.out) == (0, "")


@pytest.mark.parametrize(
    ("word", "name", "value"),
    [
        ("zone=Demo", "zoneid", ZONE),
        ("zoneid=demo", "zoneid", ZONE),
        ("networks=front,back", "networkids", ",".join(NETWORKS)),
        ("network=back", "networkids", NETWORKS[1]),
        ("iptonetworklist[0].networkid=back", "iptonetworklist[0].networkid", NETWORKS[1]),
        ("iptonetworklist[1].ip=10.0.0.9", "iptonetworklist[1].ip", "10.0.0.9"),
        ("details[0].networkid=back", "details[0].networkid", "back"),
        (f"zoneid={OTHER_ZONE}", "zoneid", OTHER_ZONE),
    ],
)
def test_names_stand_for_ids(monkey: Monkey, recorded: RecordedServer, word: str, name: str, value: str) -> None:
    """A name is taken wherever an id is wanted, in any case, lists and maps; ids and free text stay as they are."""
    words = {"zoneid": f"zoneid={ZONE}"} | {name: word}
    done = monkey(
        "deploy", "virtualmachine", f"templateid={TEMPLATE}", f"serviceofferingid={OFFERING}", *words.values()
    )
    assert done.status == 0
    assert recorded.requested("deployVirtualMachine")[0][name] == value


def test_it_says_what_a_name_was_resolved_to(monkey: Monkey) -> None:
    """The id behind a name is told on standard error, so that nobody deploys into the wrong zone unaware."""
    done = monkey("list", "networks", "zone=Demo")
    assert f"zoneid={ZONE} is Demo" in done.err


def test_names_are_looked_up_within_the_zone(monkey: Monkey, recorded: RecordedServer) -> None:
    """A template of the same name in another zone does not make the name ambiguous."""
    call = ("serviceoffering=Small Instance", "template=Debian 12", "virtualmachinecount=1", "--no-wait")
    assert monkey("bulkdeploy", "virtualmachine", "zone=Demo", *call).status == 0
    assert recorded.requested("bulkDeployVirtualMachine")[0]["templateid"] == TEMPLATE


def test_an_ambiguous_name_is_refused(monkey: Monkey, recorded: RecordedServer) -> None:
    """A name of two things is refused with both ids and what tells them apart; nothing is destroyed."""
    monkey("deploy", "virtualmachine", *BULK, "name=web-1")
    recorded.jobs.rate = 0.001
    monkey("deploy", "virtualmachine", *BULK, "name=web-1", "--no-wait")
    ambiguous = monkey("destroy", "virtualmachine", "id=web-1")
    assert ambiguous.status == 2
    done, under_way = recorded.jobs.batches
    assert f"{done.vm_id(0)} (Demo, Running)" in ambiguous.err
    assert f"{under_way.vm_id(0)} (Demo, Starting)" in ambiguous.err
    assert not recorded.requested("destroyVirtualMachine")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("deploy", "virtualmachine"), "needs zoneid, serviceofferingid, templateid"),
        (("deploy", "virtualmachine", "zone=Demo"), "needs serviceofferingid, templateid"),
        (("bulk", "deploy", "virtualmachine"), "Did you mean: bulk deployvirtualmachine"),
        (("list", "zones", "nmae=x"), "no parameter 'nmae'. Did you mean name?"),
        (("list", "zones", "Demo"), "'Demo' does not have the form name=value"),
        (("list", "zones", "page=one"), "page must be a whole number, not 'one'"),
        (
            ("bulkdeploy", "virtualmachine", *BULK, "virtualmachinecount=1", "dryrun=yes"),
            "dryrun must be true or false",
        ),
        (("list", "zone"), "Did you mean: list zones?"),
        (("list",), "no noun follows list. Nouns of list: "),
        (("--nonsense", "list", "zones"), "no such option"),
        (("list", "zones", "-o", "xml"), "'xml' is not one of"),
        (("list", "zones", "-p", "nowhere"), "there is no profile 'nowhere'"),
        (("follow", "a=b"), "'a=b' is not expected here"),
    ],
)
def test_mistakes_are_usage_errors(
    monkey: Monkey, recorded: RecordedServer, words: tuple[str, ...], text: str
) -> None:
    """What is certainly wrong ends with status 2, one line that names it, and no call."""
    done = monkey(*words)
    assert done.status == 2
    assert text in done.err
    assert done.err.strip().splitlines()[-1].startswith("Error: ")
    assert {one.command for one in recorded.seen} <= {"listApis"}


def test_general_parameters_of_cloudmonkey_are_taken(monkey: Monkey, recorded: RecordedServer) -> None:
    """``listall`` may be given where the API does not declare it, and ``--send-unknown`` sends anything."""
    assert monkey("list", "zones", "listall=true").status == 0
    assert monkey("list", "zones", "injected=x", "--send-unknown").status == 0
    assert [one.get("injected") for one in recorded.requested("listZones")] == [None, "x"]


def test_files_become_values(monkey: Monkey, recorded: RecordedServer, tmp_path: Path) -> None:
    """``@FILE`` is the file's text; user data is encoded, unless it is already."""
    (tmp_path / "init").write_text("#cloud-config\n", encoding="utf-8")
    (tmp_path / "encoded").write_text("I2Nsb3VkLWNvbmZpZwo=\n", encoding="utf-8")
    for name in ("init", "encoded"):
        done = monkey("deploy", "virtualmachine", *BULK, f"userdata=@{tmp_path / name}", "--no-wait")
        assert done.status == 0
    assert [one["userdata"] for one in recorded.requested("deployVirtualMachine")] == ["I2Nsb3VkLWNvbmZpZwo="] * 2
    assert monkey("deploy", "virtualmachine", *BULK, "userdata=@/nowhere").status == 2


def test_a_long_list_says_what_is_missing(monkey: Monkey, recorded: RecordedServer) -> None:
    """One page is read unless ``--all`` asks for the rest; a remark says that there is more."""
    first = monkey("list", "events")
    assert len(json.loads(first.out)["event"]) == 500
    assert "500 of 1200 shown; --all reads every page" in first.err
    everything = json.loads(monkey("list", "events", "--all", "-q").out)
    assert [row["id"] for row in everything["event"]] == [str(number) for number in range(1200)]
    assert len(recorded.requested("listEvents")) == 5


def test_changes_are_posted_and_reading_is_not(monkey: Monkey, recorded: RecordedServer) -> None:
    """Reading goes by GET; what changes something goes by POST, out of the logs of proxies."""
    monkey("list", "zones")
    monkey("update", "zone", f"id={ZONE}")
    methods = {one.command: one.method for one in recorded.seen}
    assert (methods["listZones"], methods["updateZone"]) == ("GET", "POST")
