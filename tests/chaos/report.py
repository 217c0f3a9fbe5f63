"""A trial's figures as lines of text."""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.trial import Figures

MOST_BREACHES = 50


def report(figures: Figures) -> Iterator[str]:
    """What was done, what came of it, and whether the promises were kept."""
    yield ""
    yield f"seed {figures.seed}, {figures.seconds:.0f} s of load and faults"
    yield from _table("done to the system", figures.done)
    yield from _table("broken on purpose and healed", figures.corruption)
    yield from _table("calls", figures.calls)
    yield from _table("refused", figures.refusals)
    yield f"VMs asked for and answered: {figures.requested}, jobs answered: {figures.jobs}"
    yield from _table("deployments", figures.states)
    yield from _table("failed deployments", figures.failures)
    yield f"longest stall: {figures.stall.length_s:.1f} s, from {figures.stall.began_s:.0f} s on; then:"
    look = figures.stall.look
    yield (
        f"    {look.queued} jobs queued, {look.running} leased, {look.waiting} waiting to try again;"
        f" {look.outbox} messages not sent, {look.messages} in Valkey, {look.consumers} workers waiting for one"
    )
    yield f"quiet {figures.quiet_after_s:.0f} s after the faults"
    for breach in figures.breaches[:MOST_BREACHES]:
        yield f"BREACH  {breach}"
    yield f"{len(figures.breaches)} breaches"


def _table(title: str, counts: Counter[str]) -> Iterator[str]:
    if counts:
        yield f"{title}: {sum(counts.values())}"
        for name, count in counts.most_common():
            yield f"{count:8}  {name}"
