"""The agent of chaos: what it does, and when, follows from its seed."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random

import psutil
import psycopg
from redis import Redis
from redis.exceptions import RedisError

from bulkdeploy.drivers.simulator.control import (
    FaultKind,
    FaultRule,
    Step,
    add_fault,
    clear_faults,
    cut_off,
    join_again,
)
from tests.chaos.system import LEASE_S, Program, System, slow_hypervisors

KILL_EVERY_S = (4.5, 7.5)
FAULT_EVERY_S = (1.5, 4.0)
OVERSLEEP_EVERY_S = (2.4 * LEASE_S, 3.2 * LEASE_S)
OVERSLEEP_S = (1.3 * LEASE_S, 2.0 * LEASE_S)


@dataclass
class Agent:
    """Kills, pauses, cuts and breaks. Driven by ``turn`` from the main thread, which starts what it killed.

    From ``spare`` on nothing is killed: what a kill would have healed must heal by itself.
    """

    system: System
    dice: Random
    tell: Callable[[str], None]
    done: Counter[str] = field(default_factory=Counter)
    _later: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    _next_kill: float = 0.0
    _next_fault: float = 0.0
    _spares: bool = False
    _cut_off: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Begin counting time."""
        now = time.monotonic()
        self._next_kill, self._next_fault = now + 2, now + 1

    def turn(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        self._undo(until=now)
        if self._spares:
            if now >= self._next_fault:
                self._next_fault = now + self.dice.uniform(*OVERSLEEP_EVERY_S)
                slept = self.done["oversleep"] > self.done["database away"]
                (self._hold_database_back if slept else self._oversleep)()
            return
        if now >= self._next_kill:
            self._next_kill = now + self.dice.uniform(*KILL_EVERY_S)
            self._kill()
        if now >= self._next_fault:
            self._next_fault = now + self.dice.uniform(*FAULT_EVERY_S)
            faults, weights = zip(*self._faults(), strict=True)
            self.dice.choices(faults, weights)[0]()

    def spare(self) -> None:
        """Kill and break nothing any more; from now on workers lose their leases, and live."""
        if not self._spares:
            self.stop()
            self._spares, self._next_fault = True, 0.0
            with self.system.simulator() as connection:
                slow_hypervisors(connection)
            self._did("spare everybody")

    def stop(self) -> None:
        """Undo whatever still holds."""
        self._undo(until=float("inf"))
        self.system.postgres.wait_until_ready()
        with self.system.simulator() as connection:
            clear_faults(connection)
            for host in self._cut_off:
                join_again(connection, host)

    def _faults(self) -> list[tuple[Callable[[], None], float]]:
        return [
            (self._pause, 3),
            (self._cut, 4),
            (self._hold, 2),
            (self._slow, 2),
            (self._flush, 2),
            (self._restart_valkey, 1),
            (self._fill_valkey, 1),
            (self._restart_postgres, 0.6),
            (self._kill_backend, 0.4),
            (self._break_hypervisors, 5),
            (self._cut_off_a_host, 2),
        ]

    def _did(self, kind: str, what: str = "") -> None:
        self.done[kind] += 1
        self.tell(f"{kind} {what}".rstrip())

    def _after(self, seconds: float, undo: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, undo))

    def _undo(self, until: float) -> None:
        due = [undo for when, undo in self._later if when <= until]
        self._later = [(when, undo) for when, undo in self._later if when > until]
        for undo in due:
            undo()

    def _victim(self) -> tuple[Program, int] | None:
        """A program that runs, and the process of it to strike: an API's is its server or its master."""
        program = self.dice.choice(self.system.programs)
        part = self.dice.random()
        if program.process is None or program.process.poll() is not None:
            return None
        pid = program.process.pid
        if program.name.startswith("api") and part < 0.85:
            with suppress(psutil.Error):
                children = psutil.Process(pid).children()
                return program, children[0].pid if children else pid
        return program, pid

    def _kill(self) -> None:
        victim = self._victim()
        if victim is None:
            self._next_kill = time.monotonic() + 0.5
            return
        program, pid = victim
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self._did("kill -9", program.name)

    def _pause(self) -> None:
        victim = self._victim()
        if victim is None:
            return
        program, pid = victim
        seconds = self.dice.choice([1, 3, 6, 14])
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            self._did("SIGSTOP", f"{program.name} for {seconds} s")
            self._after(seconds, lambda: _continue(pid))

    def _oversleep(self) -> None:
        """All workers sleep until their jobs were taken from them, and are sent the same jobs again."""
        seconds = self.dice.uniform(*OVERSLEEP_S)
        for worker in self.system.workers:
            if worker.process is not None and worker.process.poll() is None:
                worker.process.send_signal(signal.SIGSTOP)
                self._after(seconds, partial(_continue, worker.process.pid))
        self._did("oversleep", f"all workers for {seconds:.1f} s")

    def _hold_database_back(self) -> None:
        """Workers do not reach the database until their leases are over; nobody else does either."""
        proxy, seconds = self.system.proxies["postgres"], self.dice.uniform(*OVERSLEEP_S)
        proxy.hold()
        self._after(seconds, proxy.release)
        self._did("database away", f"for {seconds:.1f} s")

    def _cut(self) -> None:
        name = self.dice.choice(list(self.system.proxies))
        broken = self.system.proxies[name].cut()
        self._did("cut", f"{broken} connections to {name}")

    def _hold(self) -> None:
        name = self.dice.choice(list(self.system.proxies))
        proxy = self.system.proxies[name]
        seconds, cuts = self.dice.uniform(0.5, 6), self.dice.random() < 0.5
        proxy.hold()
        self._did("hold back", f"{name} for {seconds:.1f} s{', then cut' if cuts else ''}")

        def undo() -> None:
            if cuts:
                proxy.cut()
            proxy.release()

        self._after(seconds, undo)

    def _slow(self) -> None:
        name = self.dice.choice(list(self.system.proxies))
        proxy, delay_s = self.system.proxies[name], self.dice.choice([0.01, 0.03, 0.1])
        proxy.slow(delay_s)
        self._did("slow", f"{name} by {delay_s * 1000:.0f} ms a piece")
        self._after(self.dice.uniform(2, 6), lambda: proxy.slow(0))

    def _redis(self) -> Redis:
        return Redis.from_url(self.system.valkey.url(), socket_timeout=5)

    def _flush(self) -> None:
        with suppress(RedisError):
            self._redis().flushall()
            self._did("FLUSHALL")

    def _restart_valkey(self) -> None:
        process = self.system.valkey.process
        if process is None or process.poll() is not None:
            return
        process.kill()
        process.wait()
        seconds = self.dice.uniform(0.1, 4)
        self._did("restart Valkey", f"after {seconds:.1f} s")
        self._after(seconds, self._start_valkey)

    def _start_valkey(self) -> None:
        self.system.valkey.launch()

    def _fill_valkey(self) -> None:
        with suppress(RedisError):
            self._redis().config_set("maxmemory", 1)
            self._did("fill Valkey's memory")
            self._after(self.dice.uniform(2, 8), self._empty_valkey)

    def _empty_valkey(self) -> None:
        with suppress(RedisError):  # one that was restarted meanwhile has room anyway
            self._redis().config_set("maxmemory", 0)

    def _restart_postgres(self) -> None:
        process = self.system.postgres.process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGQUIT)  # immediate: no checkpoint, recovery from the log
        process.wait()
        self._did("restart PostgreSQL", "without a shutdown")
        self._start_postgres()

    def _kill_backend(self) -> None:
        """One process of PostgreSQL dies: the server ends all the others, recovers from its log, and goes on.

        Without the process that recovers it does not; then it is started as after any end.
        """
        process = self.system.postgres.process
        if process is None or process.poll() is not None:
            return
        with suppress(psutil.Error):
            children = psutil.Process(process.pid).children()
            if children:
                self.dice.choice(children).kill()
                self._did("crash PostgreSQL", "by kill -9 of one of its processes")
                self._after(1.0, self._start_postgres)

    def _start_postgres(self) -> None:
        """Launch it, again and again while what is left of the old one still ends."""
        process = self.system.postgres.process
        if process is None or process.poll() is not None:
            self.system.postgres.launch()
            self._after(0.5, self._start_postgres)

    def _break_hypervisors(self) -> None:
        rule = self._rule()
        with suppress(psycopg.Error), self.system.simulator() as connection:
            number = add_fault(connection, rule)
            where = rule.host or "all hosts"
            self._did(
                "hypervisors fail", f"{rule.kind.value} at {rule.step.value} on {where}, rate {rule.rate:.2f}"
            )
            self._after(self.dice.uniform(4, 15), lambda: self._mend_hypervisors(number))

    def _cut_off_a_host(self) -> None:
        """Nobody reaches it, for some seconds; where that is long, it is Down and fenced by then."""
        host, seconds = self._some_host(), self.dice.choice([2.0, 15.0])
        with suppress(psycopg.Error), self.system.simulator() as connection:
            cut_off(connection, host)
            self._cut_off.add(host)
            self._did("cut off a host", f"{host} for {seconds:.0f} s")
            self._after(seconds, partial(self._join, host))

    def _join(self, host: str) -> None:
        with suppress(psycopg.Error), self.system.simulator() as connection:
            join_again(connection, host)

    def _some_host(self) -> str:
        return f"{self.dice.choice(['a-1', 'a-2', 'b-1', 'b-2'])}-{self.dice.randint(1, 10)}"

    def _rule(self) -> FaultRule:
        often = [Step.VOLUME, Step.NETWORK, Step.BOOT, Step.BOOT, Step.STOP]
        step = self.dice.choice([*often, Step.DELETE, Step.HEALTH, Step.ANY])
        kinds = [FaultKind.TRANSIENT, FaultKind.HANG]
        if step not in (Step.DELETE, Step.ANY):
            kinds.append(FaultKind.PERMANENT)
        kind = self.dice.choice(kinds)
        one = self.dice.random() < 0.4
        host = self._some_host() if one else None
        hang_ms = self.dice.choice([None, 1000.0, 4000.0]) if kind is FaultKind.HANG else None
        rate = 1.0 if one else self.dice.uniform(0.02, 0.3)
        return FaultRule(step, kind, host=host, rate=rate, hang_ms=hang_ms, reason="chaos")

    def _mend_hypervisors(self, number: int) -> None:
        with suppress(psycopg.Error), self.system.simulator() as connection:
            clear_faults(connection, [number])


def _continue(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
