"""Completion: what the program offers, and the scripts that bring it into real shells."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import Monkey
from tests.cli.recorded_answers import NETWORKS, OFFERING, OTHER_ZONE, ZONE
from tests.cli.recorded_server import RecordedServer
from tests.cli.terminal import Terminal

pytestmark = pytest.mark.long

Offer = Callable[[str], dict[str, str]]
TAB = "\t"


@pytest.fixture
def offered(monkey: Monkey) -> Offer:
    """What may stand at the end of a line: values and descriptions."""

    def request(line: str) -> dict[str, str]:
        out = monkey("__complete", text=f"bulkmonkey {line}").out
        return dict(text.split("\t") for text in out.splitlines())

    return request


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
        ("deploy virtualmachine det", {"details[0].": "map"}),
        (
            "deploy virtualmachine iptonetworklist[0].networkid=b",
            {"iptonetworklist[0].networkid=back": NETWORKS[1]},
        ),
        ("deploy virtualmachine details[0].networkid=", {}),
        ("deploy virtualmachine serviceoffering='Small I", {"serviceoffering=Small Instance": ""}),
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


def test_no_values_are_fetched_when_autocomplete_is_off(
    monkey: Monkey, recorded: RecordedServer, offered: Offer
) -> None:
    """``set autocomplete false`` stops calls for values; names are still completed."""
    monkey("set", "autocomplete", "false")
    assert offered("list networks zoneid=") == {}
    assert "zoneid=" in offered("list networks zo")
    assert not recorded.requested("listZones")


def test_a_server_that_fails_offers_nothing(recorded: RecordedServer, offered: Offer) -> None:
    """An error while completing is silent, and the server is asked once only."""
    offered("list ")
    recorded.faults.append(("listZones", 500, "<html>oops</html>"))
    assert offered("list networks zoneid=") == {}
    assert len(recorded.requested("listZones")) == 1


@dataclass(frozen=True, slots=True)
class ShellProgram:
    """How a shell is started with a script of its own, and told to say only whether a script is sound."""

    name: str
    start: tuple[str, ...]
    check: tuple[str, ...]
    setting_up: str
    """What the script begins with."""

    def begin(self, monkey: Monkey, directory: Path) -> Terminal:
        """Start it on a terminal with the completion script, and a program ``bulkmonkey`` on its path."""
        programs = directory / "bin"
        programs.mkdir()
        program = programs / "bulkmonkey"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m bulkdeploy.cli.main "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        script = directory / ".zshrc"
        script.write_text(f"{self.setting_up}\n{monkey('completion', self.name).out}", encoding="utf-8")
        path = f"{programs}:{monkey.environment['PATH']}"
        environment = monkey.environment | {"PATH": path, "INPUTRC": "/dev/null", "ZDOTDIR": str(directory)}
        return Terminal([word.replace("SCRIPT", str(script)) for word in self.start], environment)


SHELL_PROGRAMS = (
    ShellProgram("bash", ("bash", "--noprofile", "--rcfile", "SCRIPT", "-i"), ("bash", "-n"), "PS1='ready> '"),
    ShellProgram("zsh", ("zsh", "-i"), ("zsh", "-n"), "PS1='ready> '; autoload -Uz compinit; compinit -u"),
    ShellProgram(
        "fish",
        ("fish", "--no-config", "--init-command", "source SCRIPT", "-i"),
        ("fish", "--no-execute"),
        "function fish_prompt; echo 'ready> '; end; function fish_greeting; end",
    ),
)
HERE = tuple(shell for shell in SHELL_PROGRAMS if shutil.which(shell.name))
"""The shells of this machine: bash, and whichever others there are."""


@pytest.fixture(params=HERE, ids=lambda shell: shell.name)
def typed(request: pytest.FixtureRequest, monkey: Monkey, tmp_path: Path) -> Iterator[Terminal]:
    """Each shell of this machine, at its prompt."""
    monkey("sync")
    terminal = request.param.begin(monkey, tmp_path)
    try:
        terminal.expect("ready>")
        terminal.expect_idle(0.3)
        yield terminal
    finally:
        terminal.close()


@pytest.fixture
def bash(monkey: Monkey, tmp_path: Path) -> Iterator[Terminal]:
    """A bash at its prompt."""
    monkey("sync")
    terminal = SHELL_PROGRAMS[0].begin(monkey, tmp_path)
    try:
        terminal.expect("ready>")
        yield terminal
    finally:
        terminal.close()


def test_every_shell_completes_while_one_types(typed: Terminal, recorded: RecordedServer) -> None:
    """Tab completes verb, noun, parameter and value, in and out of quotes, and the line means what it shows."""
    for text, shown in (
        ("bulkmonkey upd", "bulkmonkey update"),
        ("z", "bulkmonkey update zone"),
        ("na", "bulkmonkey update zone name="),
    ):
        typed.send(text)
        typed.expect(text)
        typed.send(TAB)
        typed.expect(shown)
    typed.send("New id=De")
    typed.expect("name=New id=De")
    typed.send(TAB)
    typed.expect("id=Demo")
    typed.send("\r")
    typed.expect("allocationstate")
    assert recorded.requested("updateZone")[0]["id"] == ZONE
    typed.send("bulkmonkey deploy virtualmachine serviceoffering='Small I")
    typed.expect("'Small I")
    typed.send(TAB)
    typed.expect("nstance")
    typed.send(f"zoneid={ZONE} templateid={ZONE} --no-wait\r")
    typed.expect("The job continues")
    assert recorded.requested("deployVirtualMachine")[0]["serviceofferingid"] == OFFERING


def test_bash_shows_names_beside_ids(bash: Terminal) -> None:
    """In bash, Tab after ``zoneid=`` fills in what all ids share; twice, it lists them with names."""
    bash.send("bulkmonkey list networks zoneid=" + TAB)
    bash.expect(f"zoneid={ZONE[:9]}")
    bash.send(TAB + TAB)
    bash.expect(f"{ZONE}  (Demo)")
    bash.expect(f"{OTHER_ZONE}  (Z")
    bash.send("1" + TAB)
    bash.expect(f"networks zoneid={ZONE}")


def test_bash_keeps_a_name_with_a_blank_one_word(bash: Terminal) -> None:
    """A completed name with a blank in it is quoted."""
    bash.send("bulkmonkey deploy virtualmachine serviceoffering=Sm" + TAB)
    bash.expect("serviceoffering=Small\\ Instance")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_its_script(bare_monkey: Monkey, shell: str) -> None:
    """``completion SHELL`` prints a script that asks the program for candidates, without the line in arguments."""
    done = bare_monkey("completion", shell)
    assert done.status == 0
    (job_requests,) = [line for line in done.out.splitlines() if "__complete " in line]
    assert re.search(r"\| \S+ __complete 2>/dev/null", job_requests)
    assert bare_monkey("completion", "tcsh").status == 2


@pytest.mark.parametrize("shell", HERE, ids=lambda shell: shell.name)
def test_shells_find_their_script_sound(bare_monkey: Monkey, shell: ShellProgram) -> None:
    """The shell reads its script without a complaint."""
    script = bare_monkey("completion", shell.name).out
    checked = subprocess.run(shell.check, input=script, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
