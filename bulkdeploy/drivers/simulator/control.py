"""Faults and latencies of simulated hypervisors, which can be changed at run time.

Any connection to the simulator's database may change them, and the next call of any process uses them. By default,
nothing fails and nothing takes time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row


class Step(StrEnum):
    """A step of a hypervisor call.

    VOLUME, NETWORK and BOOT are the steps of ``ensure_running``. ANY is a random step of a call.
    """

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
    """The failure of a call: a transient error, a permanent error, or no response (HANG)."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    HANG = "hang"


class HangEffect(StrEnum):
    """The effect of a call without a response: DONE if it was executed nevertheless, UNDONE if not."""

    DONE = "done"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class FaultRule:
    """A rule that makes calls fail.

    Attributes:
        step: the step that fails. ANY: a random step of the call. ANY also affects calls that have nothing to do,
            like a host that does not answer at all.
        kind: the failure. TRANSIENT and PERMANENT fail with ``reason``; the effects of earlier steps remain.
        host: the host's name or uuid. None: all hosts.
        rate: the share of matching calls that fail, from 0 to 1.
        remaining: the number of further failures. None: unlimited.
        hang_ms: the duration of a HANG. If it is shorter than the caller's timeout, the call is only delayed. None:
            until the timeout.
        effect: the effect of a HANG that lasts until the timeout. None: random.
        id: the id of the rule, which ``add_fault`` returns.
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
    """The distribution of a step's duration, as described for ``Latency``."""

    FIXED = "fixed"
    UNIFORM = "uniform"
    EXPONENTIAL = "exponential"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class Latency:
    """The duration of a step in ms, which is multiplied by the latency scale and never negative.

    FIXED: always the mean. UNIFORM: from mean - spread to mean + spread. EXPONENTIAL: with this mean. NORMAL: with
    this mean, and the spread as standard deviation.
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
    """Add a rule, which applies from the next call on, and return its id.

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
    """Return all rules, the oldest first, including rules with no remaining failures."""
    with connection.cursor(row_factory=class_row(FaultRule)) as cursor:
        return cursor.execute(
            "SELECT id, host, step, kind, rate, remaining, reason, hang_ms, effect"
            " FROM simulator.fault_rules ORDER BY id"
        ).fetchall()


def clear_faults(connection: Connection, ids: Sequence[int] | None = None) -> int:
    """Delete the rules with these ids, or all rules if ``ids`` is None. Return the number of deleted rules."""
    if ids is None:
        return connection.execute("DELETE FROM simulator.fault_rules").rowcount
    return connection.execute("DELETE FROM simulator.fault_rules WHERE id = ANY (%s)", [list(ids)]).rowcount


def set_latency(connection: Connection, latency: Latency) -> None:
    """Set the duration of a step from the next call on.

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
    """Delete all latencies, and set the latency scale to 1."""
    connection.execute("DELETE FROM simulator.latencies")
    set_latency_scale(connection, 1.0)


def set_latency_scale(connection: Connection, scale: float) -> None:
    """Set the factor by which all latencies are multiplied.

    0 switches them off.

    Raises:
        psycopg.errors.CheckViolation: the factor is negative.
    """
    connection.execute("UPDATE simulator.settings SET latency_scale = %s", [scale])


def latency_scale(connection: Connection) -> float:
    """Return the factor of all latencies."""
    row = connection.execute("SELECT latency_scale FROM simulator.settings").fetchone()
    return 1.0 if row is None else float(row[0])


def cut_off(connection: Connection, host: str) -> bool:
    """Make a host (name or uuid) unreachable while its guests continue.

    Returns False if the host does not exist.
    """
    return _set_reach(connection, host, cut_off=True)


def join_again(connection: Connection, host: str) -> bool:
    """Make a host (name or uuid) reachable again.

    Returns False if the host does not exist.

    Guests that were started on other hosts in the meantime then run twice.
    """
    return _set_reach(connection, host, cut_off=False)


def break_controller(connection: Connection, host: str) -> bool:
    """Stop all responses of a host's management controller. Returns False if the host does not exist."""
    return _set_controller(connection, host, dead=True)


def repair_controller(connection: Connection, host: str) -> bool:
    """Restore the responses of a host's management controller. Returns False if the host does not exist."""
    return _set_controller(connection, host, dead=False)


def break_storage(connection: Connection, host: str, pool: UUID) -> bool:
    """Make a pool unreadable for a host (name or uuid) until the pool is repaired.

    Returns False if the host does not exist.
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
