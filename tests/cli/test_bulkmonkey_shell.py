"""The interactive shell, typed into on a real pseudo-terminal."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Monkey
from tests.cli.recorded_answers import OFFERING, OTHER_ZONE, TEMPLATE, ZONE
from tests.cli.recorded_server import API_KEY, SECRET_KEY, RecordedServer
from tests.cli.terminal import Terminal

pytestmark = pytest.mark.long

PROMPT = "(lab) bulkmonkey >"
TAB, UP, RIGHT, CTRL_C, CTRL_D = "\t", "\x1b[A", "\x1b[C", "\x03", "\x04"
PASTE, PASTED = "\x1b[200~", "\x1b[201~"
BULK = f"bulkdeploy virtualmachine zoneid={ZONE} templateid={TEMPLATE} serviceofferingid={OFFERING}"


@pytest.fixture
def shell(monkey: Monkey) -> Iterator[Terminal]:
    """A shell that knows the server's APIs, at its prompt."""
    monkey("sync")
    with monkey.terminal() as terminal:
        terminal.expect(PROMPT)
        yield terminal


def test_commands_are_typed_and_answered(shell: Terminal) -> None:
    """A line runs when it is entered; the answer is a table with colours; Ctrl-D leaves with status 0."""
    shell.send("list zones\r")
    shell.expect("Enabled")
    assert b"\x1b[32mEnabled" in shell.output
    shell.expect(PROMPT, times=2)
    shell.send(CTRL_D)
    assert shell.end() == 0


def test_a_failure_does_not_leave_the_shell(shell: Terminal) -> None:
    """An error is one line; the shell goes on, and ends with the status of its last command."""
    shell.send("list nonsense\r")
    shell.expect("Error: unknown command or API: list nonsense")
    shell.expect(PROMPT, times=2)
    shell.send("exit\r")
    assert shell.end() == 2


def test_tab_completes_words(shell: Terminal) -> None:
    """Tab completes verb, noun and parameter, and shows what they mean."""
    shell.send("bulkd" + TAB)
    shell.expect("bulkDeployVirtualMachine")
    shell.send(CTRL_C)
    shell.expect(PROMPT, times=2)
    shell.send("up" + TAB)
    shell.expect(f"{PROMPT} update")
    shell.send(TAB)
    shell.expect(f"{PROMPT} update zone")
    shell.send("na" + TAB)
    shell.expect(f"{PROMPT} update zone name=")


def test_tab_offers_values_with_their_names(shell: Terminal, recorded: RecordedServer) -> None:
    """After ``zoneid=`` Tab offers the server's zones, ids with names beside them; a name begun is completed."""
    shell.send("list networks zoneid=" + TAB)
    screen = shell.expect(OTHER_ZONE)
    line = next(line for line in screen.splitlines() if f" {ZONE}" in line)
    assert "Demo" in line
    shell.send(CTRL_C)
    shell.expect(PROMPT, times=2)
    shell.send("list networks zone=De" + TAB)
    shell.expect(f"{PROMPT} list networks zone=Demo")
    assert len(recorded.requested("listZones")) == 1


def test_names_with_blanks_are_quoted(shell: Terminal, recorded: RecordedServer) -> None:
    """A completed name with a blank is quoted, and means what it should when the line is entered."""
    shell.send("deploy virtualmachine serviceoffering=Sm" + TAB)
    shell.expect("serviceoffering='Small Instance'")
    shell.send(f"zoneid={ZONE} templateid={TEMPLATE}\r")
    shell.expect("Running")
    assert recorded.requested("deployVirtualMachine")[0]["serviceofferingid"] == OFFERING


def test_hints_name_what_is_needed(shell: Terminal) -> None:
    """Below the line stands what the API does and needs; after it, in grey, the next required parameter."""
    shell.send("deploy virtualmachine ")
    shell.expect("needs zoneid, serviceofferingid, templateid")
    shell.expect("deploy virtualmachine zoneid=")
    shell.send(RIGHT + ZONE + " ")
    shell.expect("needs serviceofferingid, templateid")


def test_pasted_lines_run_one_after_the_other(shell: Terminal, recorded: RecordedServer) -> None:
    """A pasted script runs line by line, calls over several lines included, up to the first failure."""
    script = f"list zones filter=name\nupdate zone\n  id={ZONE}\n  name=New\n# a remark\nlist wrong\nlist hosts\n"
    shell.send(PASTE + script + PASTED)
    shell.expect("list hosts")
    shell.send("\r")
    shell.expect("The 1 line after this one was not run")
    assert recorded.requested("updateZone")[0]["name"] == "New"
    assert not recorded.requested("listHosts")


def test_pipes_work(shell: Terminal) -> None:
    """``| program`` sends plain JSON through the system's shell."""
    shell.send("list zones filter=id,name | tr a-z A-Z | head -7\r")
    shell.expect('"NAME": "DEMO"')


def test_ctrl_c_ends_a_program_in_a_pipe_and_not_the_shell(shell: Terminal) -> None:
    """Ctrl-C while a piped program runs ends that program; the shell goes on."""
    shell.send("list zones | { trap 'echo stopped; exit 1' INT; echo started; while :; do sleep 0.1; done; }\r")
    shell.expect("\nstarted")
    shell.send(CTRL_C)
    shell.expect("^Cstopped")
    shell.expect(PROMPT, times=2)
    shell.send("list hosts\r")
    shell.expect("kvm-3")


def test_history_remembers_lines_but_no_secrets(monkey: Monkey, home: Path) -> None:
    """Earlier lines come back with Up in the next shell; a line with a secret is kept nowhere."""
    monkey("sync")
    with monkey.terminal() as shell:
        shell.expect(PROMPT)
        shell.send("list zones filter=id\r")
        shell.expect(PROMPT, times=2)
        shell.send(f"list zones -k {API_KEY} -s {SECRET_KEY}\r")
        shell.expect(PROMPT, times=3)
        shell.send(CTRL_D)
        assert shell.end() == 0
    history = home / ".local" / "state" / "bulkmonkey" / "history"
    assert "list zones filter=id" in history.read_text(encoding="utf-8")
    assert SECRET_KEY not in history.read_text(encoding="utf-8")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    with monkey.terminal() as shell:
        shell.expect(PROMPT)
        shell.send(UP)
        shell.expect(f"{PROMPT} list zones filter=id")


def test_secrets_are_masked_while_they_are_typed(shell: Terminal) -> None:
    """Keys and passwords are shown as asterisks on the line, and never reach the screen."""
    shell.send("set secretkey topsecret")
    shell.expect("set secretkey *********")
    shell.send(CTRL_C)
    shell.expect(PROMPT, times=2)
    shell.send("list zones password=topsecret")
    shell.expect("password=*********")
    shell.send(CTRL_C)
    shell.expect(PROMPT, times=3)
    shell.send("set secretkey\r")
    shell.expect("\nsecretkey:")
    shell.send("topsecret\r")
    shell.expect("secretkey is ********")
    assert b"topsecret" not in shell.output


def test_answers_hide_secrets_on_a_terminal(shell: Terminal) -> None:
    """Keys in answers are hidden on the screen, unless ``--reveal`` is given."""
    shell.send(f"get userkeys id={ZONE}\r")
    shell.expect("secrets are hidden")
    assert SECRET_KEY.encode() not in shell.output
    shell.send(f"get userkeys id={ZONE} --reveal\r")
    shell.expect(SECRET_KEY)


def test_ctrl_c_leaves_a_batch_and_not_the_shell(shell: Terminal, recorded: RecordedServer) -> None:
    """While a batch runs there is one bar for all jobs; Ctrl-C detaches and gives the prompt back."""
    recorded.deployments = True
    recorded.jobs.rate = 2
    shell.send("sync\r")
    shell.expect("APIs of")
    shell.send(f"{BULK} virtualmachinecount=400\r")
    shell.expect("/400 done")
    shell.expect("running")
    shell.expect("queued")
    shell.send(CTRL_C)
    shell.expect("Detached: the jobs continue. Follow them again: bulkmonkey follow")
    shell.expect(PROMPT, times=3)


def test_one_job_has_a_spinner_with_its_time(shell: Terminal, recorded: RecordedServer) -> None:
    """While one job runs its time is shown; afterwards only the result is."""
    recorded.jobs.rate = 0.5
    shell.send(f"{BULK.replace('bulkdeploy', 'deploy')} name=web-1\r")
    shell.expect("deployVirtualMachine 0:00:01")
    shell.expect("web-1", times=2)
    shell.expect("Running")
    assert "0:00:0" not in shell.screen


def test_a_batch_ends_with_its_summary(shell: Terminal, recorded: RecordedServer) -> None:
    """Failures stand above the bar as they come; the end is a summary that fits the terminal."""
    recorded.deployments = True
    recorded.jobs.rate, recorded.jobs.failing = 20, {5}
    shell.send("sync\r")
    shell.expect("APIs of")
    shell.send(f"{BULK} virtualmachinecount=30\r")
    shell.expect("failed: VM")
    screen = shell.expect("room left")
    shell.expect("1 of 30 jobs failed")
    assert "/30 done" not in shell.screen
    assert all(len(line) <= 120 for line in screen.splitlines())


def test_profiles_change_in_the_shell(shell: Terminal) -> None:
    """``set profile`` changes the prompt and where the next command goes."""
    shell.send("set profile other\r")
    shell.expect("(other) bulkmonkey >")
    shell.send("profile lab\r")
    shell.expect(PROMPT, times=2)


def test_tables_fit_a_narrow_terminal(monkey: Monkey) -> None:
    """On a narrow terminal fewer columns are shown, and a line says which are left out."""
    monkey("sync")
    with monkey.terminal("list", "hosts", columns=60) as terminal:
        terminal.expect("more columns")
        assert terminal.end() == 0
        assert "kvm-3" in terminal.screen


def test_long_output_is_paged(monkey: Monkey, tmp_path: Path) -> None:
    """Output longer than the terminal goes through the pager, shorter output does not."""
    monkey("sync")
    pager = f"cat > {tmp_path / 'paged'}"
    with monkey.terminal("list", "events", "filter=id", PAGER=pager) as terminal:
        assert terminal.end() == 0
    assert (tmp_path / "paged").read_text(encoding="utf-8").count("\n") > 400
    (tmp_path / "paged").unlink()
    with monkey.terminal("list", "zones", PAGER=pager) as terminal:
        terminal.expect("Enabled")
        assert terminal.end() == 0
    assert not (tmp_path / "paged").exists()


def test_a_script_on_standard_input_is_run(monkey: Monkey) -> None:
    """Lines from a pipe run without a prompt, up to the first failure."""
    done = monkey(text="list zones filter=name\nlist nothing\nlist hosts\n")
    assert done.status == 2
    assert '"name": "Demo"' in done.out
    assert "kvm-1" not in done.out
