"""``bulkdeploy follow``, killed: while it reads everything, what an event names, and while it writes.

What it had not written whole is not there; the next process reads it again.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from bulkdeploy.services.system import System
from bulkdeploy.wiring.settings import Settings
from tests.cloudstack.silent_api import SilentApi
from tests.cloudstack.test_following import happens
from tests.cloudstack.test_import import audit_breaches, said
from tests.support.api.api_client import ApiClient
from tests.support.processes.programs import BULKDEPLOY, Process, program
from tests.support.runs.waiting import wait_for
from tests.support.zones.vms import deployed_vm
from tests.support.zones.world import World, open_world

pytestmark = pytest.mark.long

Following = Callable[[], AbstractContextManager[Process]]


@pytest.fixture
def silence() -> SilentApi:
    """What makes the upstream fall silent."""
    return SilentApi()


@pytest.fixture
def upstream(request: pytest.FixtureRequest, populated_database: str, silence: SilentApi) -> Iterator[World]:
    """The other cloud, with things of every kind."""
    with open_world(request, populated_database, before=silence.before) as made:
        made.change("UPDATE networks SET vlan = '300' WHERE guest_type = 'Isolated' AND vlan IS NULL")
        yield made


@pytest.fixture
def following(settings: Settings, upstream: World, tmp_path: Path) -> Following:
    """Starts a process that follows the upstream."""
    keys = upstream.client()
    files = {"apikey": keys.api_key, "secretkey": keys.secret_key}
    options = [f"--url={upstream.url}/client/api", "--events-seconds=0.1", "--calls-per-second=1000"]
    for name, value in files.items():
        (tmp_path / name).write_text(value)
        options.append(f"--{name}=@{tmp_path / name}")
    given = {"url": f"{upstream.url}/client/api", **files}
    settings = settings.model_copy(update={"drivers": {"default": "cloudstack"}, "driver": {"cloudstack": given}})
    return lambda: program(settings, tmp_path / "follow.log", *BULKDEPLOY, "follow", "cloudstack", *options)


def kill(process: Process) -> None:
    """With signal 9."""
    process.kill()
    process.wait()


def end_lease(system: System) -> None:
    """The lease of who was killed runs out."""
    with system.engine.begin() as connection:
        connection.execute(text("UPDATE followed_clouds SET leased_until = now()"))


@contextmanager
def volumes_locked(system: System) -> Iterator[Callable[[], bool]]:
    """Locks the table of volumes; yields a function that says whether a session waits for it."""
    waits = text(
        "SELECT count(*) FROM pg_locks WHERE relation = 'volumes'::regclass AND NOT granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    with system.engine.connect() as holder, system.engine.connect() as looker:
        holder.execute(text("LOCK TABLE volumes IN ACCESS EXCLUSIVE MODE"))

        def somebody_waits() -> bool:
            count = looker.execute(waits).scalar_one()
            looker.rollback()
            return bool(count)

        yield somebody_waits
        holder.rollback()


def test_killed_at_any_moment_it_is_finished_by_the_next(
    upstream: World, silence: SilentApi, following: Following, system: System, client: ApiClient
) -> None:
    """Half a walk leaves nothing, nor does half an event, read or being written; the next process does it."""
    silence.fall_silent("listVolumes")
    with following() as process:
        silence.wait_until_called()
        kill(process)
    assert said(client, "listZones") == {}
    end_lease(system)
    silence.speak()
    with following() as process:
        wait_for(lambda: said(client, "listVirtualMachines") != {})
        kill(process)

    end_lease(system)
    new = deployed_vm(upstream, "new")
    happens(upstream, "VM.CREATE", new)
    silence.fall_silent("listVolumes")
    with following() as process:
        silence.wait_until_called()
        kill(process)
    end_lease(system)
    silence.speak()
    with volumes_locked(system) as somebody_writes, following() as process:
        wait_for(somebody_writes)
        kill(process)
    end_lease(system)
    assert new not in said(client, "listVirtualMachines")

    with following():
        wait_for(lambda: new in said(client, "listVirtualMachines"))
    assert said(client, "listVirtualMachines")[new] == said(upstream.client(), "listVirtualMachines")[new]
    assert audit_breaches(system) == []
