"""Graphs of the past usage of VMs and hosts, from stored samples. The server draws them as SVG."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

from bulkdeploy.console.calls import Row
from bulkdeploy.console.formats import parsed, size
from bulkdeploy.console.visit import Visit

OF_VMS, OF_HOSTS = "getVirtualMachineUsageHistory", "getHostUsageHistory"
PERIODS: Mapping[str, timedelta] = MappingProxyType(
    {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}
)
USUAL_PERIODS: Mapping[str, str] = MappingProxyType({OF_VMS: "hour", OF_HOSTS: "day"})
"""The period of graphs whose address names none: a new VM has no half hours yet."""
WIDTH, HEIGHT = 300.0, 60.0
"""The size of a graph in units of its drawing."""
FEWEST = 2
MOST_POINTS = 300
"""Points of a line; of more samples the highest of each group is drawn."""
KIB = 1024
PER_CENT = 100.0


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph. Each line is a list of points in SVG syntax.

    Attributes:
        last: the newest value, as text with its unit.
        highest: the highest value, as text with its unit.
        begin, end: the times of the left and the right edge.
    """

    title: str
    lines: tuple[str, ...]
    last: str
    highest: str
    begin: str
    end: str


@dataclass(frozen=True, slots=True)
class Graphs:
    """The graphs of one VM, of one host, or of the hosts of one cluster or zone, for one period.

    Attributes:
        period: the name of the period, which is a key of PERIODS.
        found: the graphs. Empty if there are less than two samples.
    """

    period: str
    found: Sequence[Graph]


Value = Callable[[Row], float]


def vm_graphs(visit: Visit, vm_id: str) -> Graphs | None:
    """Return the graphs of CPU, memory, network and disks of a VM, or None if the caller may not read them."""
    return _graphs(visit, OF_VMS, {"id": vm_id}) if OF_VMS in visit.may else None


def host_graphs(visit: Visit, place: Mapping[str, str]) -> Graphs | None:
    """Return graphs of the CPU, memory and network usage of hosts, or None if the user may not see it.

    Args:
        visit: the request, which contains the period.
        place: one of the parameters ``hostid``, ``clusterid`` and ``zoneid``, with its value.
    """
    return _graphs(visit, OF_HOSTS, place) if OF_HOSTS in visit.may else None


def _graphs(visit: Visit, command: str, parameters: Mapping[str, str]) -> Graphs:
    """Return the graphs of CPU, memory and network, and for VMs also of disks, from a command's samples."""
    named = visit.given.get("period", "")
    period = named if named in PERIODS else USUAL_PERIODS[command]
    history = visit.calls(command, {**parameters, "period": period})["usagehistory"]
    samples = history.get("samples") or []
    seconds = int(history["intervalseconds"])
    memory = max((float(one["memorykbs"]) * KIB for one in samples), default=None)
    texts = visit.pages.texts

    def rate(name: str) -> Value:
        return lambda sample: float(sample[name]) * KIB / seconds

    disks = [(texts.graphs.disk_rate, [rate("diskkbsread"), rate("diskkbswrite")], _rate, None)]
    return Graphs(
        period,
        _Samples(samples, PERIODS[period]).graphs(
            (texts.graphs.cpu, [_cpu], _per_cent, PER_CENT),
            (texts.graphs.memory, [lambda sample: float(sample["memoryusedkbs"]) * KIB], size, memory),
            (texts.graphs.network_rate, [rate("networkkbsread"), rate("networkkbswrite")], _rate, None),
            *(disks if command == OF_VMS else ()),
        ),
    )


class _Samples:
    """The samples within the period that ends with the newest sample."""

    def __init__(self, samples: Sequence[Row], period: timedelta) -> None:
        moments = [parsed(sample["timestamp"]) for sample in samples]
        dated = [(moment, row) for moment, row in zip(moments, samples, strict=True) if moment is not None]
        self._dated = [(moment, row) for moment, row in dated if moment > dated[-1][0] - period]
        self._period = period

    def graphs(self, *wanted: tuple[str, Sequence[Value], Callable[[float], str], float | None]) -> Sequence[Graph]:
        """Return one graph for each tuple in ``wanted``, or no graphs if there are too few samples.

        A tuple has the title, the values of the lines, a function that formats a value, and the value of the upper
        edge.
        """
        return [] if len(self._dated) < FEWEST else [self._graph(*one) for one in wanted]

    def _graph(self, title: str, values: Sequence[Value], word: Callable[[float], str], top: float | None) -> Graph:
        end = self._dated[-1][0]
        begin = max(end - self._period, self._dated[0][0])
        width = (end - begin) or self._period
        series = [
            _thinned([((moment - begin) / width, value(row)) for moment, row in self._dated]) for value in values
        ]
        highest = max(value for one in series for _, value in one)
        return Graph(
            title,
            tuple(_line(one, highest if top is None else max(top, highest)) for one in series),
            word(sum(one[-1][1] for one in series)),
            word(highest),
            begin.isoformat(),
            end.isoformat(),
        )


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return at most MOST_POINTS points: of each group of neighbours the highest, so that no peak is lost."""
    group = -(-len(points) // MOST_POINTS)
    return [
        max(points[start : start + group], key=lambda point: point[1]) for start in range(0, len(points), group)
    ]


def _line(points: Sequence[tuple[float, float]], top: float) -> str:
    return " ".join(f"{WIDTH * at:.1f},{HEIGHT - value / (top or 1.0) * HEIGHT:.1f}" for at, value in points)


def _per_cent(value: float) -> str:
    return f"{value:.1f}\u00a0%"


def _rate(value: float) -> str:
    return f"{size(value)}/s"


def _cpu(sample: Row) -> float:
    return float(str(sample.get("cpuused") or "0").rstrip("%"))
