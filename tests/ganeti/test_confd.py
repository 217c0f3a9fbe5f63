"""Ganeti's client of confd queries our server, and ours queries Ganeti's: ``make test-ganeti``."""

import json
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bulkdeploy.cli.confd import request
from bulkdeploy.confd.messages import PORT, QueryType, Status
from bulkdeploy.wiring.settings import Settings
from tests.confd.test_confd import KEY, _eventually, _free_udp_port, placed_vm
from tests.ganeti.live import CLUSTER, PATIENCE_S, needs_cluster
from tests.support.processes.programs import BULKDEPLOY, program
from tests.support.runs.waiting import say
from tests.support.zones.world import World

__all__ = ["placed_vm"]

pytestmark = needs_cluster

THEIRS = ("192.0.2.10", PORT)
CLIENT = Path(__file__).parent / "confd_client.py"
ROUNDS, TIMES = 5, 400


def of_ganetis_client(key_file: Path, server: tuple[str, int], queries: list[tuple[QueryType, Any]]) -> list[Any]:
    """Status and answer of each query."""
    wanted = json.dumps([[kind.value, query] for kind, query in queries])
    command = ["/usr/bin/python3", str(CLIENT), str(key_file), server[0], str(server[1]), wanted]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def of_our_client(key: bytes, server: tuple[str, int], queries: list[tuple[QueryType, Any]]) -> list[Any]:
    """The same, with bulkmonkey's client."""
    found = [request([server], key, kind, query) for kind, query in queries]
    return [[one.status.value, one.answer] for one in found]


@contextmanager
def our_server(world: World, settings: Settings, folder: Path) -> Iterator[tuple[tuple[str, int], Path]]:
    """``bulkdeploy confd`` in front of the world, and the file of its key."""
    key_file, port = folder / "confd.key", _free_udp_port()
    key_file.write_bytes(KEY)
    changed = settings.model_copy(
        update={
            "database_url": world.engine.url.render_as_string(hide_password=False),
            "confd_listen": f"127.0.0.1:{port}",
            "confd_key_file": key_file,
            "confd_servers": ["127.0.0.1"],
        }
    )
    with program(changed, folder / "log", *BULKDEPLOY, "confd"):
        server = ("127.0.0.1", port)
        _eventually(lambda: request([server], KEY, QueryType.PING, None, wait_s=1))
        yield server, key_file


def test_each_client_understands_the_others_server(
    world: World, placed_vm: dict[str, Any], settings: Settings, tmp_path: Path
) -> None:
    """Every query that Ganeti's client can make, and one that fails, in both directions; then each is timed."""
    key = Path(f"{CLUSTER}/node1/var/lib/ganeti/hmac.key")
    with our_server(world, settings, tmp_path) as (server, key_file):
        queries: list[tuple[QueryType, Any]] = [
            (QueryType.PING, None),
            (QueryType.NODE_ROLE, placed_vm["host"]),
            (QueryType.NODE_ROLE, "nowhere"),
            (QueryType.NODE_OF_ADDRESS, {"0": placed_vm["network"], "1": placed_vm["address"]}),
            (QueryType.MASTER, None),
            (QueryType.MASTER, {"3": [0, 1, 2]}),
            (QueryType.NODES, None),
            (QueryType.CANDIDATES, None),
            (QueryType.ADDRESSES, None),
            (QueryType.DISKS, placed_vm["uuid"]),
            (QueryType.CONFIGURATION, "/cluster"),
        ]
        theirs = of_ganetis_client(key_file, server, queries)
        assert theirs == of_our_client(KEY, server, queries)
        assert [status for status, _ in theirs].count(Status.ERROR.value) == 1
        assert theirs[3] == [Status.OK.value, placed_vm["host_address"]]
        live: list[tuple[QueryType, Any]] = [
            (QueryType.PING, None),
            (QueryType.NODE_ROLE, "node1"),
            (QueryType.NODE_ROLE, "nowhere"),
            (QueryType.MASTER, None),
            (QueryType.MASTER, {"3": [0, 1, 2]}),
            (QueryType.NODES, None),
            (QueryType.CANDIDATES, None),
            (QueryType.ADDRESSES, None),
            (QueryType.CONFIGURATION, "/cluster/cluster_name"),
        ]
        answers = of_our_client(key.read_bytes(), THEIRS, live)
        assert sorted(map(json.dumps, answers)) == sorted(map(json.dumps, of_ganetis_client(key, THEIRS, live)))
        assert answers[1] == [Status.OK.value, 0]
        ours_ms, theirs_ms = [], []
        for _ in range(ROUNDS):
            ours_ms.append(median_ms(server, KEY, placed_vm["host"]))
            theirs_ms.append(median_ms(THEIRS, key.read_bytes(), "node1"))
        say(
            f"the role of a node, median of {ROUNDS} x {TIMES}: {statistics.median(ours_ms):.3f} ms ours,"
            f" {statistics.median(theirs_ms):.3f} ms Ganeti's"
        )


def median_ms(server: tuple[str, int], key: bytes, node: str) -> float:
    """Of one query after the other, from the packing of each to the unpacking of its answer."""
    found = []
    for _ in range(TIMES):
        began = time.perf_counter()
        request([server], key, QueryType.NODE_ROLE, node)
        found.append((time.perf_counter() - began) * 1000)
    return statistics.median(found)
