"""Faults and latencies of simulated hypervisors, which can be changed at run time.

Any connection to the simulator's database may change them; the next call of any
process sees it. Without rules nothing fails and nothing takes time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row


class Step(StrEnum):
    """A step of a hypervisor: the first three belong to ``ensure_running``; ANY is one of a call, by chance."""

    VOLUME = "volume"
    NETWORK = "network"
    BOOT = "boot"
    STOP = "stop"
    DELETE = "delete"
    MIGRATE = "migrate"
    SCALE = "scale"
    DEVICES = "devices"
    RESIZE = "resize"
    SNAPSHOT = "snapshot"
    REVERT = "revert"
    DELETE_SNAPSHOT = "delete_snapshot"
    TEMPLATE = "template"
    HEALTH = "health"
    ANY = "any"


class FaultKind(StrEnum):
    """The failure of a call: a transient error, a permanent error, or no answer."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    HANG = "hang"


class HangEffect(StrEnum):
    """The effect of a call that was not answered."""

    DONE = "done"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class FaultRule:
    """A rule about the calls that fail, and about their failure.

    Attributes:
        step: the step that fails; ANY: one step of the call by chance, and also calls that find
            everything as asked (a host that does not answer at all).
        kind: TRANSIENT and PERMANENT fail with ``reason``, leaving what was made before the step.
        host: the host's name or uuid; None: every host.
        rate: the share of matching calls that it strikes, 0 to 1.
        remaining: times that it will still strike; None: for ever.
        hang_ms: a HANG shorter than the caller's timeout only delays; None: until the timeout.
        effect: of a HANG that outlasts the caller; None: either, by chance.
        id: given by ``add_fault``.
    """

    step: Step
    kind: FaultKind
    host: str | None = None
    rate: float = 1.0
    remaining: int | None = None
    reason: str = "simulated failure"
    hang_ms: float | None = None
    effect: HangEffect | None = None
    id: int | None = None

    def __post_init__(self) -> None:
        """Convert texts, as the database returns them, to members of enumerations."""
        object.__setattr__(self, "step", Step(self.step))
        object.__setattr__(self, "kind", FaultKind(self.kind))
        object.__setattr__(self, "effect", None if self.effect is None else HangEffect(self.effect))


class Distribution(StrEnum):
    """The distribution of a step's duration: see ``Latency``."""

    FIXED = "fixed"
    UNIFORM = "uniform"
    EXPONENTIAL = "exponential"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class Latency:
    """The duration of a step in ms, never below 0 and times the latency scale.

    FIXED: the mean. UNIFORM: mean - spread to mean + spread. EXPONENTIAL: of that mean. NORMAL: of
    that mean, with the spread as standard deviation.
    """

    step: Step
    distribution: Distribution
    mean_ms: float
    spread_ms: float = 0.0

    def __post_init__(self) -> None:
        """Convert texts, as the database returns them, to members of enumerations."""
        object.__setattr__(self, "step", Step(self.step))
        object.__setattr__(self, "distribution", Distribution(self.distribution))


def add_fault(connection: Connection, rule: FaultRule) -> int:
    """Apply ``rule`` from the next call on; returns its id.

    Raises:
        psycopg.errors.CheckViolation: the rate is not in 0..1, or a number is negative.
    """
    row = connection.execute(
        "INSERT INTO simulator.fault_rules (host, step, kind, rate, remaining, reason, hang_ms, effect)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s) RETURNING id",
        [rule.host, rule.step, rule.kind, rule.rate, rule.remaining, rule.reason, rule.hang_ms, rule.effect],
    ).fetchone()
    if row is None:
        raise AssertionError("INSERT ... RETURNING gave no row")
    return int(row[0])


def list_faults(connection: Connection) -> list[FaultRule]:
    """Return every rule, the oldest first, also those that have no strikes left."""
    with connection.cursor(row_factory=class_row(FaultRule)) as cursor:
        return cursor.execute(
            "SELECT id, host, step, kind, rate, remaining, reason, hang_ms, effect"
            " FROM simulator.fault_rules ORDER BY id"
        ).fetchall()


def clear_faults(connection: Connection, ids: Sequence[int] | None = None) -> int:
    """Remove these rules, or all; returns how many there were."""
    if ids is None:
        return connection.execute("DELETE FROM simulator.fault_rules").rowcount
    return connection.execute("DELETE FROM simulator.fault_rules WHERE id = ANY (%s)", [list(ids)]).rowcount


def set_latency(connection: Connection, latency: Latency) -> None:
    """Set how long the step takes from the next call on.

    Raises:
        psycopg.errors.CheckViolation: the step is ANY, or a number is negative.
    """
    connection.execute(
        "INSERT INTO simulator.latencies (step, distribution, mean_ms, spread_ms) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT (step) DO UPDATE SET distribution = excluded.distribution, mean_ms = excluded.mean_ms,"
        " spread_ms = excluded.spread_ms",
        [latency.step, latency.distribution, latency.mean_ms, latency.spread_ms],
    )


def list_latencies(connection: Connection) -> list[Latency]:
    """Return the latencies of all steps that have one."""
    with connection.cursor(row_factory=class_row(Latency)) as cursor:
        return cursor.execute(
            "SELECT step, distribution, mean_ms, spread_ms FROM simulator.latencies ORDER BY step"
        ).fetchall()


def clear_latencies(connection: Connection) -> None:
    """Remove all delays and the scale."""
    connection.execute("DELETE FROM simulator.latencies")
    set_latency_scale(connection, 1.0)


def set_latency_scale(connection: Connection, scale: float) -> None:
    """Multiply every latency: 0 switches them off, 0.1 is ten times faster than life.

    Raises:
        psycopg.errors.CheckViolation: it is negative.
    """
    connection.execute("UPDATE simulator.settings SET latency_scale = %s", [scale])


def latency_scale(connection: Connection) -> float:
    """Return the factor of all latencies."""
    row = connection.execute("SELECT latency_scale FROM simulator.settings").fetchone()
    return 1.0 if row is None else float(row[0])


def cut_off(connection: Connection, host: str) -> bool:
    """Make a host (name or uuid) unreachable while its guests continue. Return False if there is no such host."""
    return _set_reach(connection, host, cut_off=True)


def join_again(connection: Connection, host: str) -> bool:
    """Make a host reachable again. Guests that were started elsewhere in the meantime then run twice."""
    return _set_reach(connection, host, cut_off=False)


def break_controller(connection: Connection, host: str) -> bool:
    """Stop responses of a host's management controller. Return False if there is no host with this name or uuid."""
    return _set_controller(connection, host, dead=True)


def repair_controller(connection: Connection, host: str) -> bool:
    """Restore responses of a host's management controller.

    Return False if there is no host with this name or uuid.
    """
    return _set_controller(connection, host, dead=False)


def break_storage(connection: Connection, host: str, pool: UUID) -> bool:
    """Make a pool unreadable for a host (name or uuid) until the pool is repaired.

    Return False if there is no such host.
    """
    broken = connection.execute(
        "INSERT INTO simulator.broken_units SELECT uuid, %s FROM simulator.hosts"
        " WHERE name = %s OR uuid::text = %s ON CONFLICT (host_uuid, pool_uuid) DO UPDATE SET pool_uuid = %s",
        [pool, host, host, pool],
    )
    return broken.rowcount > 0


def _set_controller(connection: Connection, host: str, *, dead: bool) -> bool:
    changed = connection.execute(
        "UPDATE simulator.hosts SET is_bmc_dead = %s WHERE name = %s OR uuid::text = %s", [dead, host, host]
    )
    return changed.rowcount > 0


def _set_reach(connection: Connection, host: str, *, cut_off: bool) -> bool:
    changed = connection.execute(
        "UPDATE simulator.hosts SET is_cut_off = %s WHERE name = %s OR uuid::text = %s", [cut_off, host, host]
    )
    return changed.rowcount > 0
