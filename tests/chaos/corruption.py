"""Rows and guests that are broken on purpose, and healed while everything else goes on."""

import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic

import psycopg
from sqlalchemy.exc import DBAPIError

from bulkdeploy.embedded.processes import spawn
from bulkdeploy.manage.auditing.heal import FAULT, FOUND, HEALED, LEFT, NOTHING
from bulkdeploy.manage.programs.programs import command_line, environment
from tests.chaos.system import SHORT_WAIT, System
from tests.support.zones.zone_queries import Zone

BREAK_EVERY_S = (1.0, 4.0)
HEAL_EVERY_S = (4.0, 12.0)
KILLED = 0.25
"""The part of all heals that is killed while it works."""

MOST_HEALS = 6
"""Heals after quiet, until one finds nothing: what a job of one mends may show what the next one mends."""

GUESTS: Mapping[str, str] = {
    "a guest is gone": "DELETE FROM simulator.guests WHERE uuid = %s",
    "a guest has other sizes": "UPDATE simulator.guests SET cpu_mhz = cpu_mhz - 1 WHERE uuid = %s",
    "a guest lacks its volumes": "UPDATE simulator.guests SET volume_uuids = '{}' WHERE uuid = %s",
    "a guest is elsewhere": (
        "SELECT simulator_code.change_host(g, (SELECT min(uuid::text)::uuid FROM simulator.hosts"
        " WHERE uuid <> g.host_uuid)) FROM simulator.guests g WHERE uuid = %s"
    ),
    "a guest runs twice": (
        "INSERT INTO simulator.stray_guests SELECT g.uuid, max(h.uuid::text)::uuid FROM simulator.hosts h"
        " JOIN simulator.guests g ON g.host_uuid <> h.uuid WHERE g.uuid = %s GROUP BY g.uuid"
    ),
}
"""What is done to a running guest behind everybody's back."""

CHOOSING, *_PARTS = re.split(
    r"^-- breaks: (\w+)\n", Path(__file__).with_name("corruption.sql").read_text(), flags=re.M
)
"""Functions by which the dice choose."""

ROWS: Mapping[str, list[str]] = {
    promise: [statement for name, statement in zip(_PARTS[::2], _PARTS[1::2], strict=True) if name == promise]
    for promise in _PARTS[::2]
}
"""By promise of the audit, the statements that break it."""


ENDS = {NOTHING: "nothing to do", FAULT: "fault", FOUND: "found", HEALED: "healed", LEFT: "some left"}


@dataclass
class Corruption:
    """Breaks promises and runs ``bulkdeploy heal``. Driven by ``turn`` from the main thread."""

    system: System
    dice: Random
    tell: Callable[[str], None]
    done: Counter[str] = field(default_factory=Counter)
    _next_break: float = 0.0
    _next_heal: float = 0.0
    _heal: subprocess.Popen[bytes] | None = None
    _killed_at: float | None = None

    @property
    def log(self) -> Path:
        """What heals say."""
        return self.system.directory / "heal.log"

    def turn(self, *, kills: bool) -> None:
        """Do what is due; ``kills``: some heals are killed."""
        now = monotonic()
        if now >= self._next_break:
            self._next_break = now + self.dice.uniform(*BREAK_EVERY_S)
            self._break()
        if self._heal is not None:
            if kills and self._killed_at is not None and now >= self._killed_at:
                self._killed_at = None
                with suppress(ProcessLookupError):
                    os.kill(self._heal.pid, signal.SIGKILL)
            self._see()
        elif now >= self._next_heal:
            self._next_heal = now + self.dice.uniform(*HEAL_EVERY_S)
            self._killed_at = now + self.dice.uniform(0.5, 4) if self.dice.random() < KILLED else None
            self._heal = self._begin(wait_s=3, batch=self.dice.choice([1, 5, 50]))

    def heal_all(self, meanwhile: Callable[[], None]) -> str | None:
        """Heal until there is nothing to do; None, or what the last heal said."""
        code = None
        while self._heal is not None:
            meanwhile()
            self._see()
        for _ in range(MOST_HEALS):
            process = self._begin(wait_s=120, batch=50)
            while (code := process.poll()) is None:
                meanwhile()
            self.done[f"heal at the end: {ENDS.get(code, code)}"] += 1
            if code == NOTHING:
                return None
        return f"heal still finds something, exit code {code}: {self.log.read_text()[-2000:]}"

    def _begin(self, *, wait_s: int, batch: int) -> subprocess.Popen[bytes]:
        arguments = ("-m", "bulkdeploy.manage.main", "heal", "--wait", str(wait_s), "--batch", str(batch))
        with self.log.open("ab") as output:
            return spawn(
                command_line(arguments),
                death_signal=signal.SIGKILL,
                output=output,
                environment=environment(self.system.settings, dict(os.environ)),
            )

    def _see(self) -> None:
        """Whether the heal has ended, and how."""
        code = None if self._heal is None else self._heal.poll()
        if code is not None:
            self._heal = None
            self.done[f"heal: {'killed' if code == -signal.SIGKILL else ENDS.get(code, code)}"] += 1

    def begin(self) -> None:
        """Let the dice have something to choose with."""
        Zone(self.system.engine).change(CHOOSING)

    def _break(self) -> None:
        """One promise, chosen by the dice."""
        what = self.dice.choice([*ROWS, *GUESTS])
        dice = str(self.dice.random())
        zone = Zone(self.system.engine)
        with suppress(DBAPIError, psycopg.Error):
            if what in ROWS:
                zone.change(self.dice.choice(ROWS[what]), dice=dice)
            else:
                vm = zone.scalar("SELECT chaos.some_vm(:dice)", dice=dice)
                with self.system.simulator() as connection:
                    connection.execute(f"SET {SHORT_WAIT}")
                    connection.execute(GUESTS[what].encode(), [vm])
            self.done[f"broken: {what}"] += 1
