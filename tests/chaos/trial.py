"""One trial: a system, a load, an agent; then quiet, and the promises checked."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from random import Random

from redis import Redis

from tests.chaos.agent import Agent
from tests.chaos.corruption import Corruption
from tests.chaos.journal import Journal
from tests.chaos.load import Client, Names
from tests.chaos.system import LEASE_S, PATIENCE_S, SWEEP_INTERVAL_S, System, start_system
from tests.chaos.verification import check, failures, repeat_calls
from tests.chaos.watcher import Rounds, Stall, Watcher, look_for_progress, unfinished
from tests.support.zones.zone_queries import Zone

CLIENTS = 8
SPARED = 0.45
"""The part of a trial, its last, in which nothing is killed or broken but leases run out again and again."""

IDLE_LEASES = 6
QUIET_LEASES = 84
"""Once the faults are over, something comes of a job in every IDLE_LEASES lease times while one is due, and after
QUIET_LEASES all have ended: those that could not clean up while hypervisors failed try again after pauses. They are
counted in rounds of the sweeper, which take longer where everything does."""

FINAL_SIZE = 3
"""The size that managed deployments get when faults are over."""

WRONG_SIZES = (
    "SELECT d.uuid, m.desired_count, m.next_check, count(v.id) AS vms FROM managed_deployments m"
    " JOIN deployments d ON d.id = m.deployment_id"
    " LEFT JOIN replacements r ON r.deployment_id = m.deployment_id AND r.completed IS NULL"
    " LEFT JOIN deployments part ON part.id = d.id OR part.grown_from = d.id"
    " LEFT JOIN virtual_machines v ON v.deployment_id = part.id AND v.removed IS NULL"
    "   AND v.state NOT IN ('Destroyed', 'Expunging')"
    " WHERE m.last_error IS NULL GROUP BY d.uuid, m.deployment_id"
    " HAVING count(DISTINCT v.id) < m.desired_count OR (count(r.id) = 0 AND count(DISTINCT v.id) > m.desired_count)"
)

ROUNDS_PER_LEASE = LEASE_S / SWEEP_INTERVAL_S

TICK_S = 0.05

DEFECTS = (
    "driver_defect",
    "job_interrupted",
    "batch_not_written",
    "sweep_failed",
    "failed unexpectedly",
    "Traceback",
)
"""What must not be in any log, whatever is done to the system."""


@dataclass
class Figures:
    """What a trial found."""

    seed: int
    seconds: float
    done: Counter[str] = field(default_factory=Counter)
    corruption: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    requested: int = 0
    jobs: int = 0
    states: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    stall: Stall = field(default_factory=Stall)
    quiet_after_s: float = 0.0
    defects: Counter[str] = field(default_factory=Counter)
    breaches: list[str] = field(default_factory=list)


def run_trial(seed: int, seconds: float, directory: Path, tell: Callable[[str], object]) -> Figures:
    """Bring chaos to a fresh system for so many seconds, and check what it promises."""
    workers = Random(f"{seed} workers").choice([1, 1, 2, 3])  # noqa: S311 - dice
    tell(f"{workers} workers")
    system = start_system(directory, workers)
    try:
        return _Trial(seed, seconds, system, tell).run()
    finally:
        system.stop()


class _Trial:
    def __init__(self, seed: int, seconds: float, system: System, tell: Callable[[str], object]) -> None:
        self._seconds, self._system, self._report = seconds, system, tell
        self._figures = Figures(seed, seconds)
        self._journal = Journal()
        self._dice = Random(f"{seed} verification")  # noqa: S311 - dice
        dice = Random(f"{seed} agent")  # noqa: S311 - dice
        self._agent = Agent(system, dice, self._say)
        self._corruption = Corruption(system, Random(f"{seed} corruption"), self._say)  # noqa: S311 - dice
        self._watcher = Watcher(system.engine, Redis.from_url(system.valkey.url(), socket_timeout=5))
        self._zone = Zone(system.engine)
        self._began = time.monotonic()

    def run(self) -> Figures:
        """See ``run_trial``."""
        self._wait_until_ready()
        self._watcher.start()
        self._began = time.monotonic()
        clients = self._start_clients()
        self._agent.begin()
        self._corruption.begin()
        while time.monotonic() < self._began + self._seconds:
            spares = time.monotonic() > self._began + (1 - SPARED) * self._seconds
            if spares:
                self._agent.spare()
            self._agent.turn()
            self._corruption.turn(kills=not spares)
            self._tick()
        self._say("faults off")
        self._end(clients)
        self._wait_for_quiet()
        self._check()
        return self._figures

    def _say(self, words: str) -> None:
        self._report(f"{time.monotonic() - self._began:7.1f} s  {words}")

    def _tick(self) -> None:
        self._system.keep_running()
        time.sleep(TICK_S)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        for client in self._system.clients:
            while True:
                self._tick()
                try:
                    if client.request("GET", "/health/ready").status == 200:
                        break
                except OSError:
                    pass
                if time.monotonic() > deadline:
                    raise AssertionError(f"the system did not start; see {self._system.directory}")

    def _start_clients(self) -> list[Client]:
        names = Names.read(self._zone, self._system.clients[0])
        clients = []
        for number in range(CLIENTS):
            dice = Random(f"{self._figures.seed} client {number}")  # noqa: S311
            name = f"client{chr(ord('a') + number)}"
            client = Client(name, dice, self._system.clients, names, self._journal, self._watcher)
            client.start()
            clients.append(client)
        return clients

    def _end(self, clients: list[Client]) -> None:
        self._agent.stop()
        for client in clients:
            client.end()
        while any(client.is_alive() for client in clients):
            self._tick()
        self._figures.breaches += [f"a client failed: {one.failure!r}" for one in clients if one.failure]

    def _take_hosts_back(self) -> None:
        """As an operator does once faults are over: jobs of VMs on a host that was fenced wait for it."""
        client, deadline = self._system.clients[0], time.monotonic() + PATIENCE_S
        while True:
            answer = client.get("listHosts", state="Down")
            down = answer.body.get("host", []) if answer.status == HTTPStatus.OK else None
            if down == []:
                return
            for host in down or ():
                client.get("reconnectHost", id=host["id"])  # refused while a job evacuates it
            self._tick()
            assert time.monotonic() < deadline, f"hosts were not taken back: {answer.text}"

    def _wait_for_quiet(self) -> None:
        faults_off = time.monotonic()
        self._wait_until_ready()
        self._take_hosts_back()
        self._figures.breaches += repeat_calls(self._system, self._journal, self._dice)
        self._settle_fleets()
        self._corruption.heal_all(self._tick)  # a job may wait for what only heal mends: a claim of nobody
        self._figures.breaches += self._wait_for_jobs()
        self._figures.breaches += self._wait_for_fleets()
        left = self._corruption.heal_all(self._tick)
        if left is not None:
            self._figures.breaches.append(left)
        self._figures.breaches += self._wait_for_jobs()
        self._figures.quiet_after_s = time.monotonic() - faults_off
        self._say("quiet")
        self._watcher.end()
        for program in [*self._system.workers, self._system.sweeper]:
            status, body = program.get("/health/live")
            if status != 200:
                self._figures.breaches.append(f"{program.name} is not live: {body}")

    def _settle_fleets(self) -> None:
        """End replacements and healing, as an operator does, and let each managed deployment have another size.

        A size that the zone has no room for is refused; then the old one stays.
        """
        client = self._system.clients[0]
        for row in self._zone.rows(
            "SELECT d.uuid FROM managed_deployments m JOIN deployments d ON d.id = m.deployment_id"
        ):
            client.post("replaceBulkDeployment", id=row.uuid, pause=True)
            client.post("updateBulkDeployment", id=row.uuid, virtualmachinecount=FINAL_SIZE, autoheal=False)

    def _wait_for_fleets(self) -> Iterator[str]:
        """Wait until each managed deployment has its size; breaches where that takes too many rounds.

        VMs beyond the size stay while a replacement is paused or failed. The sweeper says why it cannot add VMs.
        """
        rounds = Rounds(self._system.sweeper)
        began = rounds.ended()
        while True:
            for _ in range(10):
                self._tick()
            wrong = self._zone.rows(WRONG_SIZES)
            if not wrong:
                return
            if rounds.ended() - began > QUIET_LEASES * ROUNDS_PER_LEASE:
                yield from (f"managed deployment has not its size: {tuple(row)}" for row in wrong)
                return

    def _wait_for_jobs(self) -> Iterator[str]:
        """Wait until no job is left; breaches where that takes too many rounds of the sweeper."""
        rounds = Rounds(self._system.sweeper)
        seen, began = look_for_progress(self._zone), rounds.ended()
        since = began
        while seen.unfinished > 0:
            for _ in range(10):
                self._tick()
            before, seen, ended = seen, look_for_progress(self._zone), rounds.ended()
            if seen != before or seen.due == 0:
                since = ended
            if ended - since > IDLE_LEASES * ROUNDS_PER_LEASE:
                yield f"{seen.due} jobs are due and nothing came of any in {ended - since} rounds of the sweeper"
                yield from self._unfinished()
                return
            if ended - began > QUIET_LEASES * ROUNDS_PER_LEASE:
                yield f"{seen.unfinished} jobs did not end within {ended - began} rounds of the sweeper"
                yield from self._unfinished()
                return

    def _unfinished(self) -> list[str]:
        return [f"the queues then: {self._watcher.now}", *unfinished(self._zone)]

    def _check(self) -> None:
        figures, journal = self._figures, self._journal
        figures.breaches += check(self._system, journal, self._dice)
        figures.done, figures.corruption = self._agent.done, self._corruption.done
        figures.calls, figures.refusals = journal.calls, journal.refusals
        figures.requested = sum(call.count for call in journal.bulk_calls if call.jobs is not None)
        figures.jobs = len(journal.all_jobs())
        rows = self._zone.rows("SELECT status FROM async_jobs WHERE kind = 'deploy_virtual_machine'")
        figures.states = Counter({0: "open", 1: "deployed", 2: "failed"}[row.status] for row in rows)
        figures.failures = failures(self._zone)
        figures.stall = self._watcher.longest
        for log in sorted(self._system.directory.glob("*.log")):
            text = log.read_text(errors="replace")
            figures.defects.update({f"{word} in {log.name}": text.count(word) for word in DEFECTS if word in text})
        figures.breaches += [f"{times} times {defect}" for defect, times in figures.defects.items()]
