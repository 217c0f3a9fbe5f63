"""Promises of the rule that the demonstration checks, and of its picture."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.cli.deployments.spread import ClusterSpread, by_pod, read_spread
from bulkdeploy.manage.demo.bulk_call import uneven
from bulkdeploy.manage.demo.picture import draw_spread


def cluster(name: str, before: int, added: int, capacity: int | None) -> ClusterSpread:
    """A cluster of pod ``p``."""
    return ClusterSpread("p", name, before, added, capacity)


def test_level_spread_is_accepted() -> None:
    """Clusters that got VMs end level or one apart."""
    assert uneven([cluster("a", 3, 2, 50), cluster("b", 0, 5, 50), cluster("c", 0, 4, 50)]) == []


def test_a_cluster_two_above_one_with_room_is_reported() -> None:
    """A cluster that got a VM and ends two above another with room breaks the promise; both are named."""
    (problem,) = uneven([cluster("a", 3, 2, 50), cluster("b", 0, 3, 50)])
    assert "a got 2" in problem
    assert "b has 3" in problem


def test_full_and_excluded_clusters_excuse_a_difference() -> None:
    """A cluster without room, or one that was not eligible, may stay behind."""
    assert uneven([cluster("a", 0, 9, 50), cluster("full", 0, 2, 2), cluster("excluded", 0, 0, None)]) == []


def test_cluster_that_got_nothing_may_be_far_above() -> None:
    """VMs that were there before are nobody's fault."""
    assert uneven([cluster("a", 90, 0, 50), cluster("b", 0, 3, 50)]) == []


SPREADS = st.lists(
    st.builds(
        ClusterSpread,
        pod=st.sampled_from(["north", "south & <west>"]),
        name=st.text("abc<&\"'", min_size=1, max_size=8),
        before=st.integers(0, 500),
        added=st.integers(0, 500),
        capacity=st.none() | st.integers(500, 900),
    ),
    max_size=12,
)


@given(SPREADS)
def test_picture_shows_every_cluster_and_stays_inside(spread: list[ClusterSpread]) -> None:
    """Any spread gives well-formed SVG; no bar leaves the picture; every total is written."""
    root = ElementTree.fromstring(draw_spread(spread, "Title <&>"))  # noqa: S314 - we made it
    width = float(root.attrib["width"])
    name = "{http://www.w3.org/2000/svg}"
    for bar in root.iter(f"{name}rect"):
        assert float(bar.attrib.get("x", 0)) + float(bar.attrib["width"]) <= width + 0.2
    texts = [text.text for text in root.iter(f"{name}text")]
    assert all(one.name in texts and str(one.after) in texts for one in spread)


@given(SPREADS)
def test_pods_hold_every_cluster_once(spread: list[ClusterSpread]) -> None:
    """Grouping by pod loses nothing and adds up."""
    pods = by_pod(spread)
    assert sorted(map(repr, spread)) == sorted(repr(one) for pod in pods for one in pod.clusters)
    assert sum(pod.after for pod in pods) == sum(one.after for one in spread)


def test_spread_is_read_from_the_api() -> None:
    """The objects of listBulkDeployments become spreads; what is not eligible has no room."""
    counts = {"before": 1, "added": 2, "after": 3, "capacity": 7, "succeeded": 1}
    rows = [{"podname": "p", "podid": "5", "clustername": "a", "clusterid": "9", **counts}]
    assert read_spread({"clusters": rows}) == [ClusterSpread("p", "a", 1, 2, 7, 1, "9", "5")]
    assert read_spread({}) == []
