"""Answers that CloudStack once gave, as Libcloud brings them with its tests, are read as an import reads them."""

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import orjson
import pytest

from bulkdeploy.cloudstack.client import Access, CallRefused, Client, Row, rows_in
from bulkdeploy.manage.upstream.sections import SOURCES, NotRepresented, Source
from bulkdeploy.manage.upstream.virtual_machines import virtual_machines_of
from tests.cloudstack.paging_server import API_KEY, SECRET_KEY, paging_server

SPEC = find_spec("libcloud.test")
FOLDER = Path(*(SPEC.submodule_search_locations or [""] if SPEC else [""]), "compute", "fixtures", "cloudstack")


def recorded(command: str) -> list[Row]:
    """The rows of all recorded answers to a list call."""
    rows: list[Row] = []
    for path in sorted(FOLDER.glob(f"{command}_*.json")):
        (answer,) = orjson.loads(path.read_bytes()).values()
        rows += rows_in(answer)
    return rows


def test_the_answers_are_there() -> None:
    """Libcloud ships them; without them the other tests would say nothing."""
    assert len(list(FOLDER.glob("*.json"))) >= 100
    assert recorded("listVirtualMachines")


def test_the_client_reads_every_answer() -> None:
    """Of lists, of jobs and of errors: none counts as no answer of a CloudStack."""
    with paging_server() as server:
        client = Client(Access(server.url, API_KEY, SECRET_KEY, calls_per_second=1000))
        for path in FOLDER.glob("*.json"):
            server.answers = [(200, {}, path.read_bytes())]
            with suppress(CallRefused):
                assert isinstance(client.call("listZones"), dict), path.name
        assert len(server.seen) == len(list(FOLDER.glob("*.json")))
        client.close()


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.section)
def test_rows_become_entries_or_say_why_not(source: Source) -> None:
    """No row of any age makes the reader fail: it has entries, or a reason why there is none."""
    for row in recorded(source.command):
        with suppress(NotRepresented, KeyError):  # what an import tells of, and goes on
            for entry in source.entries(row, {"listRolePermissions": [], "listHosts": []}):
                assert entry.get("name") or entry.keys() & {"securitygroupid", "resourcetype"}


def test_vms_without_uuids_are_left_out_and_told() -> None:
    """The recorded ones are of releases that had numbers: ids that are no uuids cannot be ours."""
    rows = recorded("listVirtualMachines")
    machines, left_out = virtual_machines_of({"listVirtualMachines": rows, "listVolumes": recorded("listVolumes")})
    assert (machines.vms, machines.volumes) == ([], [])
    assert sum(line.startswith("virtualmachines ") for line in left_out) == len(rows)
