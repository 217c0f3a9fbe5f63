"""Records bulkmonkey at work on the real service: ``python -m docs.record_cli`` writes docs/images/bulkmonkey.svg.

The service runs with the sample zone in a temporary directory; bulkmonkey runs on a pseudo-terminal, typed
into by this script. What is on the screen becomes the frames of one animated SVG.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from itertools import groupby
from pathlib import Path

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

from tests.cli.terminal import Terminal

TARGET = Path(__file__).parent / "images" / "bulkmonkey.svg"
COLUMNS, LINES = 108, 46
READY_WITHIN = 120.0  # seconds
PROMPT = "(admin) bulkmonkey >"
BULK = (
    'bulkdeploy virtualmachine zone=demo serviceoffering=Small template="Debian 12 (KVM)" virtualmachinecount=200'
)
BOOT_MS = ("boot", "4000", "--distribution", "normal", "--spread-ms", "1500")

FRAME = """<g class="frame" id="{unique_id}">
<style>{styles} .{unique_id}-matrix {{ font: {char_height}px/{line_height}px monospace; }}</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></g>
"""


@dataclass(frozen=True, slots=True)
class Shot:
    """What was on the screen, and for how many seconds it is shown."""

    text: Text
    seconds: float


class Recorder:
    """Types into a terminal and keeps what is seen."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.shots: list[Shot] = []

    def shoot(self, seconds: float) -> None:
        """Keep what is on the screen now."""
        self.shots.append(Shot(screen_text(self.terminal.view), seconds))

    def run(self, line: str, until: str, *, look: float) -> None:
        """Type a line, show it, enter it, and show the screen once ``until`` is on it."""
        self.terminal.send(line)
        self.terminal.expect(line[-20:])
        self.shoot(2)
        self.terminal.send("\r")
        self.terminal.expect(until)
        self.terminal.expect_idle()
        self.shoot(look)

    def clear(self) -> None:
        """An empty screen with a prompt."""
        self.terminal.send("\x0c")
        self.terminal.expect_idle()

    def watch(self, line: str, until: str, *, every: float) -> None:
        """Enter a line that takes its time; show the screen now and then, and at the end."""
        self.terminal.send(line)
        self.terminal.expect(line[-20:])
        self.shoot(2)
        self.terminal.send("\r")
        while until not in self.terminal.screen:
            self.terminal.read_for(every)
            self.shoot(1)
        self.terminal.expect_idle()
        self.shoot(6)


@contextmanager
def service(directory: Path) -> Iterator[Path]:
    """The whole service with the sample zone; yields the file with a profile for clients."""
    command = [sys.executable, "-m", "bulkdeploy.manage.main"]
    place = ["--data-dir", str(directory)]
    listening = ["--listen", "127.0.0.1:0", "--demo-zone", "--workers", "2"]
    with (directory / "up.log").open("w") as log:
        process = subprocess.Popen([*command, "up", *place, *listening], stdout=log, stderr=log)
    profile = directory / "bulkmonkey.config"
    try:
        deadline = time.monotonic() + READY_WITHIN
        while not profile.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"The service did not start:\n{(directory / 'up.log').read_text()}")
            time.sleep(0.2)
        subprocess.run([*command, *place, "simulator", "latency", "set", *BOOT_MS], check=True)
        yield profile
    finally:
        process.terminate()
        process.wait(60)


def record(profile: Path, home: Path) -> list[Shot]:
    """Plan, deploy, explain."""
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "PAGER": "cat",
    }
    monkey = [sys.executable, "-m", "bulkdeploy.cli.main", "-c", str(profile)]
    subprocess.run([*monkey, "sync"], env=environment, check=True)
    terminal = Terminal(monkey, environment, columns=COLUMNS, lines=LINES)
    try:
        terminal.expect(PROMPT)
        recorder = Recorder(terminal)
        recorder.run("list zones filter=id,name,networktype,allocationstate", "Enabled", look=3)
        recorder.clear()
        recorder.run(f"{BULK} dryrun=true", "VMs fit", look=5)
        recorder.clear()
        recorder.watch(BULK, "Slowest", every=2.5)
        return recorder.shots
    finally:
        terminal.close()


def screen_text(screen: pyte.Screen) -> Text:
    """What is on a screen, with its colours."""
    text = Text()
    for row in range(screen.lines):
        line = Text()
        cells = [screen.buffer[row][column] for column in range(screen.columns)]
        for (fg, bold, reverse), run in groupby(cells, key=lambda cell: (cell.fg, cell.bold, cell.reverse)):
            line.append("".join(cell.data for cell in run), Style(color=colour(fg), bold=bold, reverse=reverse))
        line.rstrip()
        text.append_text(line).append("\n")
    return text


def colour(name: str) -> str | None:
    """A terminal's colour by rich's name for it."""
    if name == "default":
        return None
    if len(name) == len("rrggbb") and all(digit in "0123456789abcdef" for digit in name):
        return f"#{name}"
    names = {"brown": "yellow", "brightbrown": "bright_yellow", "brightblack": "bright_black"}
    return names.get(name, name.replace("bright", "bright_"))


def animation(shots: list[Shot]) -> str:
    """One SVG that shows the shots one after the other, again and again; without animation, the last."""
    total = sum(shot.seconds for shot in shots)
    frames, rules, began = [], [], 0.0
    for number, shot in enumerate(shots):
        console = Console(width=COLUMNS, file=StringIO(), record=True, force_terminal=True)
        console.print(shot.text, end="")
        frames.append(console.export_svg(title="bulkmonkey", code_format=FRAME, unique_id=f"f{number}"))
        start, end = 100 * began / total, 100 * (began + shot.seconds) / total
        began += shot.seconds
        rules.append(
            f"@keyframes k{number} {{ 0% {{ opacity: 0 }} {start:.2f}% {{ opacity: 1 }} "
            f"{end:.2f}% {{ opacity: {int(end >= 100)} }} 100% {{ opacity: {int(end >= 100)} }} }}\n"
            f"#f{number} {{ animation: k{number} {total:.0f}s step-end infinite }}"
        )
    width, height = COLUMNS * 12.2 + 20, (LINES + 1) * 24.4 + 50
    body = "\n".join(frames)
    style = "\n".join(rules)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}">\n'
        f"<title>bulkmonkey plans and deploys 200 VMs</title>\n<style>\n{style}\n</style>\n{body}\n</svg>\n"
    )


def main() -> None:
    """Record, and write the picture."""
    with tempfile.TemporaryDirectory() as directory:
        home, data = Path(directory) / "home", Path(directory) / "data"
        home.mkdir()
        data.mkdir()
        with service(data) as profile:
            shots = record(profile, home)
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(animation(shots), encoding="utf-8")


if __name__ == "__main__":
    main()
