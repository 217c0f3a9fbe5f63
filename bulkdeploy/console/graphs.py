"""Graphs of what a VM used, from its stored samples; the server draws them as lines of an SVG."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bulkdeploy.console.calls import Row
from bulkdeploy.console.formats import size
from bulkdeploy.console.visit import Visit

COMMAND = "listVirtualMachinesUsageHistory"
WIDTH, HEIGHT = 300.0, 60.0
"""The size of a graph in units of its drawing."""
FEWEST = 2
MOST_POINTS = 300
"""Points of a line; of more samples the highest of each group is drawn."""
KIB = 1024


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph; each line is a list of points as SVG has it.

    Attributes:
        last: the newest value, in words.
        highest: the highest value, in words.
        begin, end: moments of the first and the last sample.
    """

    title: str
    lines: tuple[str, ...]
    last: str
    highest: str
    begin: str
    end: str


def graphs_of(visit: Visit, vm_id: str) -> list[Graph]:
    """Return the graphs of CPU, memory, network and disks of a VM; none before there are two samples."""
    if COMMAND not in visit.may:
        return []
    rows = visit.calls.rows(COMMAND, {"id": vm_id})
    samples = rows[0].get("stats") or [] if rows else []
    if len(samples) < FEWEST:
        return []
    texts = visit.pages.texts
    return [
        _graph(texts.graphs.cpu, samples, [_cpu], lambda value: f"{value:.1f}\u00a0%"),
        _graph(texts.graphs.memory, samples, [_memory_used], size),
        _graph(texts.graphs.network, samples, [_kib("networkkbsread"), _kib("networkkbswrite")], size),
        _graph(texts.graphs.disks, samples, [_kib("diskkbsread"), _kib("diskkbswrite")], size),
    ]


def _graph(
    title: str, samples: Sequence[Row], values: Sequence[Callable[[Row], float]], word: Callable[[float], str]
) -> Graph:
    series = [_thinned([value(sample) for sample in samples]) for value in values]
    highest = max(max(one) for one in series)
    return Graph(
        title,
        tuple(_line(one, highest) for one in series),
        word(sum(one[-1] for one in series)),
        word(highest),
        str(samples[0]["timestamp"]),
        str(samples[-1]["timestamp"]),
    )


def _thinned(values: Sequence[float]) -> list[float]:
    """Return at most MOST_POINTS values: of each group of neighbours the highest, so that no peak is lost."""
    group = -(-len(values) // MOST_POINTS)
    return [max(values[start : start + group]) for start in range(0, len(values), group)]


def _line(values: Sequence[float], highest: float) -> str:
    step, whole = WIDTH / max(1, len(values) - 1), highest or 1.0
    return " ".join(
        f"{step * place:.1f},{HEIGHT - value / whole * HEIGHT:.1f}" for place, value in enumerate(values)
    )


def _cpu(sample: Row) -> float:
    return float(str(sample.get("cpuused") or "0").rstrip("%"))


def _memory_used(sample: Row) -> float:
    """Return the bytes that the guest uses; all that it has where it does not report what is free."""
    free = int(sample.get("memoryintfreekbs") or 0)
    return float((int(sample.get("memorykbs") or 0) - max(0, free)) * KIB)


def _kib(name: str) -> Callable[[Row], float]:
    return lambda sample: float(int(sample.get(name) or 0) * KIB)
