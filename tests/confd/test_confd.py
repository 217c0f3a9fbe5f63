"""``bulkdeploy confd`` answers on UDP where VMs are, from what it read, and drops the rest."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, text

from bulkdeploy.cli.confd import Reply, request
from bulkdeploy.cli.failures import ConnectionFailed
from bulkdeploy.confd.answers import Directory
from bulkdeploy.confd.messages import MOST_BYTES, NotSigned, QueryType, Status, pack, unpack
from bulkdeploy.confd.server import Reader, reply, serve
from bulkdeploy.manage.running import announce
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.store.whereabouts import Whereabouts
from bulkdeploy.wiring.settings import Settings
from tests.support.processes.programs import BULKDEPLOY, program
from tests.support.runs.waiting import PATIENCE_S
from tests.support.zones.world import World

KEY = b"0123456789abcdef0123456789abcdef01234567\n"
SERVERS = ("192.0.2.1", "192.0.2.2")


@contextmanager
def served(reader: Reader) -> Iterator[tuple[str, int]]:
    """Answer on a port of the loopback interface."""
    bound, ended = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), threading.Event()
    bound.bind(("127.0.0.1", 0))
    bound.settimeout(0.05)
    thread = threading.Thread(target=serve, args=(bound, KEY, reader, ended))
    thread.start()
    try:
        yield bound.getsockname()
    finally:
        ended.set()
        thread.join()
        bound.close()


@pytest.fixture(scope="module")
def placed_vm(world: World) -> dict[str, Any]:
    """A VM that runs on a host, with what is known of it."""
    uuid = world.id_of("virtual_machines", "acme-1")
    with world.engine.connect() as connection:
        return dict(
            connection.execute(
                text(
                    "SELECT v.uuid::text AS uuid, h.name AS host, h.uuid::text AS host_uuid,"
                    " h.ip_address AS host_address, host(n.ip_address) AS address, k.name AS network"
                    " FROM virtual_machines v JOIN hosts h ON h.id = v.host_id"
                    " JOIN nics n ON n.vm_id = v.id JOIN networks k ON k.id = n.network_id"
                    " WHERE v.uuid = :uuid"
                ),
                {"uuid": uuid},
            )
            .mappings()
            .one()
        )


SendsQuery = Callable[..., Reply]


@pytest.fixture
def queries(world: World, placed_vm: dict[str, Any]) -> Iterator[SendsQuery]:
    """Query a server that has read the world."""
    del placed_vm
    reader = Reader(world.engine, SERVERS, interval_s=60)
    reader.read()
    with served(reader) as address:
        yield lambda kind, query=None: request([address], KEY, kind, query)


def test_every_query_is_answered_as_the_rows_say(queries: SendsQuery, placed_vm: dict[str, Any]) -> None:
    """Each type, with what it is about, over UDP and through bulkmonkey's client."""
    host, vm, address = placed_vm["host"], placed_vm["uuid"], placed_vm["address"]
    found = {
        "ping": queries(QueryType.PING).answer,
        "role": queries(QueryType.NODE_ROLE, host).answer,
        "role by uuid": queries(QueryType.NODE_ROLE, placed_vm["host_uuid"]).answer,
        "role of a server": queries(QueryType.NODE_ROLE, SERVERS[1]).answer,
        "node": queries(QueryType.NODE_OF_ADDRESS, {"1": address, "0": placed_vm["network"]}).answer,
        "nodes": queries(
            QueryType.NODE_OF_ADDRESS, {"0": placed_vm["network"], "2": [address, "192.0.2.99"]}
        ).answer,
        "master": queries(QueryType.MASTER).answer,
        "master's fields": queries(QueryType.MASTER, {"3": [0, 1]}).answer,
        "candidates": queries(QueryType.CANDIDATES).answer,
    }
    assert found.pop("ping") >= 1
    assert found == {
        "role": 4,
        "role by uuid": 4,
        "role of a server": 1,
        "node": placed_vm["host_address"],
        "nodes": [[0, placed_vm["host_address"]], [1, 0]],
        "master": SERVERS[0],
        "master's fields": [SERVERS[0], SERVERS[0]],
        "candidates": list(SERVERS),
    }
    assert placed_vm["host_address"] in queries(QueryType.NODES).answer
    assert address in queries(QueryType.ADDRESSES, placed_vm["network"]).answer
    primaries, secondaries = queries(QueryType.INSTANCES, host).answer
    assert vm in {one["uuid"] for one in primaries}
    assert secondaries == []
    assert [disk["mode"] for disk in queries(QueryType.DISKS, vm).answer] == ["rw"]
    pointed = queries(QueryType.CONFIGURATION, f"/instances/{vm}/primary_node")
    assert pointed.answer == placed_vm["host_uuid"]


@pytest.mark.parametrize(
    ("kind", "query", "status", "answer"),
    [
        (QueryType.NODE_ROLE, "nowhere", Status.ERROR, 0),
        (QueryType.NODE_ROLE, 7, Status.ERROR, 2),
        (QueryType.NODE_OF_ADDRESS, {"1": "192.0.2.99"}, Status.ERROR, 0),
        (QueryType.NODE_OF_ADDRESS, "192.0.2.99", Status.ERROR, 2),
        (QueryType.MASTER, "x", Status.ERROR, 2),
        (QueryType.INSTANCES, None, Status.ERROR, 2),
        (QueryType.DISKS, "nothing", Status.ERROR, 0),
        (QueryType.CONFIGURATION, "/nodes/none", Status.ERROR, 0),
        (QueryType.NODE_DRBD, None, Status.NOT_IMPLEMENTED, "query type 7 is not implemented"),
    ],
)
def test_what_cannot_be_answered_is_told_by_its_number(
    queries: SendsQuery, kind: QueryType, query: Any, status: Status, answer: Any
) -> None:
    """Unknown entry 0, wrong form 2, and types that only Ganeti has."""
    found = queries(kind, query)
    assert (found.status, found.answer) == (status, answer)


def test_the_serial_grows_with_every_change(fresh_world: World) -> None:
    """And what was read with it has the change."""
    name = fresh_world.scalar("SELECT min(name) FROM hosts")
    reader = Reader(fresh_world.engine, SERVERS, interval_s=60)
    serials, roles = [], []
    for state in ("Disabled", "Enabled"):
        fresh_world.change("UPDATE hosts SET resource_state = :state WHERE name = :name", state=state, name=name)
        reader.read()
        assert reader.directory is not None
        serials.append(reader.directory.serial)
        roles.append(reader.directory.answer(QueryType.NODE_ROLE, name)[1])
    assert serials == sorted(set(serials))
    assert roles == [3, 4]


def test_the_program_answers_also_while_the_database_is_away(
    settings: Settings, engine: Engine, postgres_url: str, tmp_path: Path
) -> None:
    """What it has read stays; the database takes no connections."""
    with engine.begin() as connection:
        nodes = set(connection.execute(text("SELECT ip_address FROM hosts WHERE removed IS NULL")).scalars())
        name = connection.execute(text("SELECT current_database()")).scalar_one()
    key_file = tmp_path / "hmac.key"
    key_file.write_bytes(KEY)
    port = _free_udp_port()
    changed = settings.model_copy(
        update={"confd_listen": f"127.0.0.1:{port}", "confd_key_file": key_file, "confd_refresh_seconds": 0.1}
    )
    with program(changed, tmp_path / "log", *BULKDEPLOY, "confd"):
        answers = _eventually(lambda: request([("127.0.0.1", port)], KEY, QueryType.NODES, None, wait_s=1))
        assert set(answers.answer) == nodes
        engine.dispose()
        maintenance = create_engine(postgres_url)
        with maintenance.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'))
            try:
                connection.execute(
                    text(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE datname = :name AND pid <> pg_backend_pid()"
                    ),
                    {"name": name},
                )
                _eventually(lambda: (tmp_path / "log").read_text().index("confd_not_read"))
                again = request([("127.0.0.1", port)], KEY, QueryType.NODES, None)
                assert set(again.answer) == nodes
            finally:
                connection.execute(text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'))
        maintenance.dispose()


def _free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _eventually(work: Callable[[], Any]) -> Any:
    end = time.monotonic() + 120
    while True:
        try:
            return work()
        except (ConnectionFailed, ValueError):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


EMPTY = Directory(7, Whereabouts(1, [], [], [], []), SERVERS)


def answered(*datagrams: bytes, now: float = 1000.0) -> list[bytes | None]:
    """What a server that knows nothing sends back."""
    return [reply(one, KEY, EMPTY, now=lambda: now) for one in datagrams]


def query(salt: str = "1000", key: bytes = KEY, **changes: Any) -> bytes:
    """A ping, changed."""
    return pack({"protocol": 1, "type": 0, "query": None, "rsalt": "salt", **changes}, salt, key)


def test_what_is_wrong_is_met_with_silence() -> None:
    """Another key, a time too far off, another protocol or an unknown type."""
    good, edge = answered(query(), query("700"))
    assert good is not None
    assert edge is not None
    assert unpack(good, KEY) == ({"protocol": 1, "status": 0, "answer": 1, "serial": 7}, "salt")
    wrong = (
        query(key=b"another"),
        query("699"),
        query("1301"),
        query("now"),
        query(protocol=2),
        query(type=12),
        query(type="0"),
        query(type=True),
        query(rsalt=None),
        query()[1:],
        b"plj1" + query()[4:],
    )
    assert answered(*wrong) == [None] * len(wrong)
    assert reply(query(), KEY, None, now=lambda: 1000.0) is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(("0", "1", "2", "3")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(("0", "1", "2", "3", "x")), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: b"plj0" + rest))
def test_no_packet_of_a_stranger_is_answered(datagram: bytes) -> None:
    """Whatever is in it."""
    assert answered(datagram) == [None]


@given(JSON, st.text(max_size=8))
def test_no_json_without_the_key_is_answered(message: Any, signature: str) -> None:
    """Wherever the parts of a datagram have other types, too."""
    for outer in (
        message,
        {"msg": message, "salt": "1000", "hmac": signature},
        {"msg": "x", "salt": message, "hmac": "y"},
    ):
        assert answered(b"plj0" + json.dumps(outer).encode()) == [None]


@given(st.integers(0, 11), JSON)
def test_every_signed_query_is_answered_within_the_protocol(kind: int, question: Any) -> None:
    """With a status of the protocol and the client's salt; never with an exception or too much."""
    (datagram,) = answered(query(type=kind, query=question))
    assert datagram is not None
    assert len(datagram) <= MOST_BYTES
    message, salt = unpack(datagram, KEY)
    assert (salt, message["protocol"], message["serial"]) == ("salt", 1, 7)
    assert message["status"] in tuple(Status)


@given(JSON)
def test_any_signed_message_is_survived(message: Any) -> None:
    """An answer, or none."""
    (datagram,) = answered(pack(message, "1000", KEY))
    assert datagram is None or unpack(datagram, KEY)


def test_an_answer_that_is_too_large_is_refused_with_its_size() -> None:
    """A datagram could not carry it."""
    hosts: list[Mapping[str, Any]] = [
        {"id": n, "uuid": str(n), "name": f"h{n}", "ip_address": "2001:db8::1234", "state": "Up", "cluster": "c"}
        | {"resource_state": "Enabled"}
        for n in range(5000)
    ]
    directory = Directory(7, Whereabouts(1, hosts, [], [], []), SERVERS)
    datagram = reply(query(type=4), KEY, directory, now=lambda: 1000.0)
    assert datagram is not None
    message, _ = unpack(datagram, KEY)
    assert message["status"] == Status.ERROR
    assert f"at most {MOST_BYTES} bytes" in message["answer"]


def test_the_uuids_of_many_vms_are_read_page_by_page() -> None:
    """Every page fits into one answer; all of them together name each VM once."""
    row = {"host_id": None, "memory_mib": 1, "cpu_number": 1}
    vms: list[Mapping[str, Any]] = [
        {"id": n, "uuid": str(UUID(int=n)), "name": f"v{n}", "instance_name": f"i-{n}-VM", **row}
        for n in range(2345)
    ]
    directory = Directory(7, Whereabouts(1, [], vms, [], []), SERVERS)
    found: list[str] = []
    for page in range(4):
        datagram = reply(query(type=10, query=f"/instance_uuids/{page}"), KEY, directory, now=lambda: 1000.0)
        assert datagram is not None
        message, _ = unpack(datagram, KEY)
        assert message["status"] == (Status.OK if page < 3 else Status.ERROR)
        found += message["answer"] if page < 3 else []
    assert found == [vm["uuid"] for vm in vms]


@contextmanager
def answering(serials: Sequence[int], key: bytes = KEY) -> Iterator[list[tuple[str, int]]]:
    """Servers whose states have these serials."""
    with served_all([Directory(one, Whereabouts(1, [], [], [], []), [str(one)]) for one in serials], key) as found:
        yield found


@contextmanager
def served_all(directories: Sequence[Directory], key: bytes) -> Iterator[list[tuple[str, int]]]:
    """A server for each state."""
    ended, sockets, threads = threading.Event(), [], []
    for directory in directories:
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        bound.bind(("127.0.0.1", 0))
        bound.settimeout(0.05)
        sockets.append(bound)
        threads.append(threading.Thread(target=_serve_one, args=(bound, key, directory, ended)))
        threads[-1].start()
    try:
        yield [one.getsockname() for one in sockets]
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        for bound in sockets:
            bound.close()


def _serve_one(bound: socket.socket, key: bytes, directory: Directory, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            datagram, sender = bound.recvfrom(MOST_BYTES)
        except TimeoutError:
            continue
        answer = reply(datagram, KEY, directory)
        if answer is not None:
            bound.sendto(pack(*unpack(answer, KEY), key), sender)


def test_the_client_keeps_the_answer_with_the_highest_serial() -> None:
    """Of two servers it waits for both."""
    with answering((5, 9)) as servers:
        assert request(servers, KEY, QueryType.MASTER, None).answer == "9"


def test_the_client_does_not_believe_who_lacks_the_key() -> None:
    """Too few genuine answers are no answer."""
    with (
        answering((5,)) as genuine,
        answering((9,), key=b"another") as forged,
        pytest.raises(ConnectionFailed, match="1 of 2 confd servers"),
    ):
        request([*genuine, *forged], KEY, QueryType.MASTER, None, wait_s=0.5)


def test_a_signature_covers_message_and_salt() -> None:
    """Neither can be exchanged."""
    one, two = query(), query("1001")
    mixed = {**json.loads(one[4:]), "salt": json.loads(two[4:])["salt"]}
    with pytest.raises(NotSigned):
        unpack(b"plj0" + json.dumps(mixed).encode(), KEY)


@contextmanager
def running_program(settings: Settings, tmp_path: Path, **changes: Any) -> Iterator[tuple[Any, tuple[str, int]]]:
    """The program with its own key and port, once it answers."""
    key_file = tmp_path / "hmac.key"
    key_file.write_bytes(KEY)
    address = ("127.0.0.1", _free_udp_port())
    changed = settings.model_copy(
        update={
            "confd_listen": f"127.0.0.1:{address[1]}",
            "confd_key_file": key_file,
            "confd_refresh_seconds": 0.1,
            **changes,
        }
    )
    with program(changed, tmp_path / "log", *BULKDEPLOY, "confd") as started:
        _eventually(lambda: request([address], KEY, QueryType.PING, None, wait_s=1))
        yield started, address


def test_no_signed_datagram_ends_the_program(settings: Settings, tmp_path: Path) -> None:
    """After a query whose salt cannot be encoded, the program still answers, and ends at SIGTERM."""
    with running_program(settings, tmp_path) as (started, address):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(query(str(int(time.time())), rsalt="\ud800"), address)
        assert request([address], KEY, QueryType.PING, None).status is Status.OK
        started.terminate()
        assert started.wait(PATIENCE_S) == 0


def test_answers_of_a_state_that_cannot_be_read_say_their_age(
    settings: Settings, engine: Engine, tmp_path: Path
) -> None:
    """An error of the database other than its absence makes answers stale and not the program end; it recovers."""
    with running_program(settings, tmp_path, confd_stale_seconds=0.5) as (_, address):

        def ping(*, stale: bool) -> Reply:
            found = request([address], KEY, QueryType.PING, None)
            if (found.status is Status.ERROR) is not stale:
                raise ValueError(found)
            return found

        before = _eventually(lambda: ping(stale=False))
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE nics RENAME TO elsewhere"))
            connection.execute(text("UPDATE hosts SET name = name"))
        old = _eventually(lambda: ping(stale=True)).answer
        assert (old["status"], old["answer"]) == (Status.OK, before.answer)
        assert old["staleseconds"] >= 0
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE elsewhere RENAME TO nics"))
        assert _eventually(lambda: ping(stale=False)).answer == before.answer


def test_the_program_finds_the_database_of_up(settings: Settings, tmp_path: Path) -> None:
    """Without a configured database it uses the services that ``up`` runs in the same data_dir."""
    announce(settings.model_copy(update={"data_dir": tmp_path}))
    nowhere = {"database_url": None, "redis_url": None, "data_dir": tmp_path}
    with running_program(settings, tmp_path, **nowhere) as (_, address):
        assert request([address], KEY, QueryType.PING, None).status is Status.OK
