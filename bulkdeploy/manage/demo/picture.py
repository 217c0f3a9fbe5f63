"""A picture of a deployment: VMs per cluster, before and after, as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from jinja2 import Environment, StrictUndefined

from bulkdeploy.cli.deployments.spread import ClusterSpread, by_pod

TEMPLATE = "spread_template.svg"
WIDTH = 760
LABEL_WIDTH = 170
NUMBER_WIDTH = 60
ROW_HEIGHT = 20
POD_HEIGHT = 30
HEAD_HEIGHT = 74
FOOT_HEIGHT = 16


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar of one cluster, in pixels from the picture's top left corner."""

    y: int
    cluster: str
    before: int
    added: int
    before_width: float
    added_width: float


@dataclass(frozen=True, slots=True)
class Heading:
    """The line with a pod's name above its clusters."""

    y: int
    text: str


def draw_spread(spread: Sequence[ClusterSpread], title: str) -> str:
    """Return a picture of VMs per cluster as SVG text, which is readable on light and dark backgrounds."""
    most = max((one.after for one in spread), default=0) or 1
    scale = (WIDTH - LABEL_WIDTH - NUMBER_WIDTH) / most
    y, bars, headings = HEAD_HEIGHT, [], []
    for pod in by_pod(spread):
        headings.append(Heading(y + POD_HEIGHT - 10, f"{pod.name}: {pod.before} + {pod.added} = {pod.after}"))
        y += POD_HEIGHT
        for one in pod.clusters:
            widths = round(one.before * scale, 1), round(one.added * scale, 1)
            bars.append(Bar(y, one.name, one.before, one.added, *widths))
            y += ROW_HEIGHT
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = resources.files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(text).render(
        title=title,
        subtitle=_subtitle(spread),
        bars=bars,
        headings=headings,
        width=WIDTH,
        height=y + FOOT_HEIGHT,
        left=LABEL_WIDTH,
        thickness=ROW_HEIGHT - 6,
    )


def _subtitle(spread: Sequence[ClusterSpread]) -> str:
    got = [one.after for one in spread if one.added]
    added = sum(one.added for one in spread)
    if not got:
        return "no VM was added"
    return f"{added} VMs over {len(got)} clusters, which then have {min(got)} to {max(got)} VMs each"
