"""Reading another cloud whole: what a list keeps back is never taken for gone."""

from collections.abc import Iterator

import pytest

from bulkdeploy.cloudstack.client import Access, Client
from bulkdeploy.manage.upstream.reading import PLAIN, Upstream
from bulkdeploy.manage.upstream.sections import SOURCES
from tests.cloudstack.paging_server import API_KEY, SECRET_KEY, PagingServer, paging_server

COMMANDS = [*(source.command for source in SOURCES), *PLAIN]


@pytest.fixture
def server() -> Iterator[PagingServer]:
    """A cloud of three clusters with hosts, and nothing else."""
    with paging_server() as running:
        running.lists = {command: ("row", []) for command in COMMANDS}
        running.lists["listClusters"] = ("cluster", [{"id": f"c{number}"} for number in range(3)])
        running.lists["listHosts"] = ("host", [{"id": f"h{number}"} for number in range(1000)])
        yield running


def read(server: PagingServer) -> Upstream:
    """All of it."""
    upstream = Upstream(Client(Access(server.url, API_KEY, SECRET_KEY, calls_per_second=1000)))
    upstream.read()
    return upstream


def test_every_list_is_read_once(server: PagingServer) -> None:
    """Though several sections are made of one."""
    upstream = read(server)
    assert len(upstream.rows["listHosts"]) == 1000
    assert upstream.incomplete == set()
    assert upstream.rows.keys() == set(COMMANDS)
    assert sum(given["command"] == "listHosts" for _, given in server.seen) == 2


def test_hosts_that_pages_lose_are_read_cluster_by_cluster(server: PagingServer) -> None:
    """A page that holds a whole cluster cannot lose a host to the next one; here even these do, and it is told."""
    server.shifted = set(range(1000))
    upstream = read(server)
    assert {given["clusterid"] for _, given in server.seen if "clusterid" in given} == {"c0", "c1", "c2"}
    assert len(upstream.rows["listHosts"]) < 1000
    assert upstream.incomplete == {"listHosts"}
