"""Completion: what the program offers, and the script that brings it into a real bash."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Monkey
from tests.cli.recorded_answers import NETWORKS, OTHER_ZONE, ZONE
from tests.cli.recorded_server import RecordedServer
from tests.cli.terminal import Terminal

Offer = Callable[[str], dict[str, str]]
TAB = "\t"


@pytest.fixture
def offered(monkey: Monkey) -> Offer:
    """What may stand at the end of a line: values and descriptions."""

    def ask(line: str) -> dict[str, str]:
        out = monkey("__complete", "--line", f"bulkmonkey {line}").out
        return dict(text.split("\t") for text in out.splitlines())

    return ask


def test_first_words_are_verbs_and_own_commands(offered: Offer) -> None:
    """The first word is a verb of the API or one of bulkmonkey's own commands."""
    words = offered("")
    assert {"list", "deploy", "bulk", "follow", "explain", "set", "sync", "help"} <= words.keys()
    assert offered("bulkD").keys() == {"bulkDeployVirtualMachine"}


def test_nouns_follow_verbs_in_both_spellings(offered: Offer) -> None:
    """``bulk`` and ``bulkdeploy`` are both completed with what is left of the name."""
    assert offered("bulk ").keys() == {"deployvirtualmachine"}
    assert offered("bulkdeploy v").keys() == {"virtualmachine"}
    assert "zones" in offered("list z")


def test_required_parameters_come_first(offered: Offer) -> None:
    """Parameter names are offered once each, required ones first and marked."""
    names = list(offered("deploy virtualmachine zoneid=x "))
    assert names[:2] == ["serviceofferingid=", "templateid="]
    assert "zoneid=" not in names
    assert offered("deploy virtualmachine service")["serviceofferingid="].startswith("required uuid")


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("list networks zoneid=", {f"zoneid={ZONE}": "Demo"}),
        ("list networks zoneid=de", {"zoneid=Demo": ZONE}),
        ("list networks zone=", {"zone=Demo": ZONE}),
        (f"deploy virtualmachine networkids={NETWORKS[0]},b", {f"networkids={NETWORKS[0]},back": NETWORKS[1]}),
        ("deploy virtualmachine account=", {"account=admin": ""}),
        ("bulkdeploy virtualmachine dryrun=", {"dryrun=true": "", "dryrun=false": ""}),
        ("list zones filter=id,na", {"filter=id,name": "string  its name"}),
        ("list zones -o c", {"csv": "", "column": ""}),
        ("-p ", {"lab": "", "localcloud": ""}),
        ("list zones --no", {"--no-wait": "do not wait for jobs"}),
        ("set out", {"output": "output format; unset: table on a terminal, json elsewhere"}),
        ("set output ya", {"yaml": ""}),
        ("set verifycert ", {"true": "", "false": ""}),
        ("profile l", {"lab": "", "localcloud": ""}),
        ("completion ", {"bash": "", "zsh": "", "fish": ""}),
    ],
)
def test_values_are_offered(offered: Offer, line: str, values: dict[str, str]) -> None:
    """Values are offered with their names beside ids, and ids beside names; words of settings and options, too."""
    found = offered(line)
    assert values.keys() <= found.keys()
    for value, description in values.items():
        assert description in found[value]


def test_deployments_are_offered_where_one_is_wanted(
    monkey: Monkey, recorded: RecordedServer, offered: Offer
) -> None:
    """``follow`` and ``explain`` offer deployments with their state."""
    recorded.deployments = True
    deployment = recorded.jobs.start(5, recorded.clock(), deployment=True).deployment
    monkey("sync")
    assert "5" in offered("explain ")[deployment]


def test_values_are_not_asked_for_when_that_is_off(
    monkey: Monkey, recorded: RecordedServer, offered: Offer
) -> None:
    """``set autocomplete false`` stops calls for values; names are still completed."""
    monkey("set", "autocomplete", "false")
    assert offered("list networks zoneid=") == {}
    assert "zoneid=" in offered("list networks zo")
    assert not recorded.asked("listZones")


def test_a_server_that_fails_offers_nothing(recorded: RecordedServer, offered: Offer) -> None:
    """An error while completing is silent, and the server is asked once only."""
    offered("list ")
    recorded.faults.append(("listZones", 500, "<html>oops</html>"))
    assert offered("list networks zoneid=") == {}
    assert len(recorded.asked("listZones")) == 1


@pytest.fixture
def bash(monkey: Monkey, tmp_path: Path) -> Iterator[Terminal]:
    """A bash with the completion script, and a program ``bulkmonkey`` on its path."""
    monkey("sync")
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "bulkmonkey"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m bulkdeploy.cli.main "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = tmp_path / "rc"
    script.write_text(f"PS1='ready> '\n{monkey('completion', 'bash').out}", encoding="utf-8")
    environment = monkey.environment | {"PATH": f"{programs}:{monkey.environment['PATH']}", "INPUTRC": "/dev/null"}
    terminal = Terminal(["bash", "--noprofile", "--rcfile", str(script), "-i"], environment)
    try:
        terminal.expect("ready>")
        yield terminal
    finally:
        terminal.close()


def test_bash_completes_words_and_parameters(bash: Terminal) -> None:
    """In bash, Tab completes verb, noun and parameter; after a parameter's name no blank is added."""
    bash.send("bulkmonkey upd" + TAB)
    bash.expect("bulkmonkey update")
    bash.send("z" + TAB + "na" + TAB + "X")
    bash.expect("bulkmonkey update zone name=X")


def test_bash_shows_names_beside_ids(bash: Terminal) -> None:
    """In bash, Tab after ``zoneid=`` fills in what all ids share; twice, it lists them with names."""
    bash.send("bulkmonkey list networks zoneid=" + TAB)
    bash.expect(f"zoneid={ZONE[:9]}")
    bash.send(TAB + TAB)
    bash.expect(f"{ZONE}  (Demo)")
    bash.expect(f"{OTHER_ZONE}  (Z")
    bash.send("1" + TAB)
    bash.expect(f"networks zoneid={ZONE}")


def test_bash_completes_a_name_and_the_command_runs(bash: Terminal, recorded: RecordedServer) -> None:
    """A completed name is taken by the program as the value that it stands for."""
    bash.send("bulkmonkey list templates templatefilter=all zone=De" + TAB + "\r")
    bash.expect("Debian 12")
    assert recorded.asked("listTemplates")[0]["zoneid"] == ZONE


def test_bash_keeps_a_name_with_a_blank_one_word(bash: Terminal) -> None:
    """A completed name with a blank in it is quoted."""
    bash.send("bulkmonkey deploy virtualmachine serviceoffering=Sm" + TAB)
    bash.expect("serviceoffering=Small\\ Instance")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_its_script(bare_monkey: Monkey, shell: str) -> None:
    """``completion SHELL`` prints a script that calls the program for candidates."""
    done = bare_monkey("completion", shell)
    assert done.status == 0
    assert "__complete" in done.out
    assert bare_monkey("completion", "tcsh").status == 2


def test_the_bash_script_is_sound(bare_monkey: Monkey) -> None:
    """Bash reads its script without a complaint."""
    script = bare_monkey("completion", "bash").out
    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
