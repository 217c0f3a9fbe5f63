"""Fixtures of all tests: real services for the run, a clean database for each test.

Under ``pytest -n`` the controlling process starts the services and tells the others where.
"""

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, text

from bulkdeploy.commands.registry import default_rights
from bulkdeploy.services.system import System
from bulkdeploy.store.database.bootstrap import admin_row, bootstrap
from bulkdeploy.store.database.engine import create_engine, create_reading_engine
from bulkdeploy.store.migrations.upgrade import upgrade
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.garbage import collect_seldom
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.support.api.accounts import cheap_hash, hash_passwords_cheaply
from tests.support.api.api_client import ApiClient
from tests.support.api.api_server import serving
from tests.support.hypervisors.drivers import SIMULATED
from tests.support.processes.services import (
    REDIS_DATABASES,
    Services,
    copy_database,
    database_clone,
    made_once,
    server_directory,
    with_database,
    without_time_limits,
)
from tests.support.runs.compiled_statements import share_compiled_statements
from tests.support.runs.lock_order import watch_lock_order
from tests.support.runs.log_lines import render_tracebacks_plainly
from tests.support.runs.properties import register_profiles
from tests.support.runs.run_order import deal
from tests.support.zones.zone_files import load_zone

SMALL_ZONE = Path(__file__).parent / "zones" / "small.yaml"
SECRET_KEY = "4dAgWu2FtJTjPY5bJ1hFn3gk8r7Gl_T8CHDXYmzc5fs="
ADMIN_PASSWORD = "correct horse battery staple"

collect_seldom()
register_profiles()

pytest_plugins = ["tests.support.zones.worlds"]
watch_lock_order()
render_tracebacks_plainly()
hash_passwords_cheaply()
share_compiled_statements()

SERVICES = pytest.StashKey[Services]()
ADDRESSES = "service_addresses"
NUMBER = pytest.StashKey[int]()


def _services(config: pytest.Config) -> Services:
    if SERVICES not in config.stash:
        services = Services()
        config.stash[SERVICES] = services
        services.start()
    return config.stash[SERVICES]


def _addresses(config: pytest.Config) -> dict[str, object]:
    services = _services(config)
    return {
        "postgres": services.postgres.url(),
        "redis_port": services.valkey.port,
        "redis_password": services.valkey.password,
    }


class FailuresAtOnce:
    """Names each failed test when it fails, in runs of several processes, which otherwise list them at their end.

    A run that is killed has no end.
    """

    def __init__(self, config: pytest.Config) -> None:
        """Write where this run reports."""
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a line for a failure."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\nFAILED in its {report.when}: {report.nodeid}")


def pytest_configure(config: pytest.Config) -> None:
    """Name failures at once, and take Ctrl-C where a run in the background, and so its programs, ignore it."""
    if getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(FailuresAtOnce(config))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes share a run, spread what takes long."""
    worker_input = getattr(config, "workerinput", None)
    if worker_input is not None:
        items[:] = deal(items, int(worker_input["workercount"]))


def pytest_collection_finish() -> None:
    """Exclude what was collected from garbage collection: thousands of tests stay until the process ends."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:  # type: ignore[no-untyped-def]
    """Tell a pytest-xdist worker where the services are."""
    node.workerinput[ADDRESSES] = _addresses(node.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the services in the process that started them."""
    if SERVICES in config.stash:
        config.stash[SERVICES].stop()


@pytest.fixture(scope="session")
def service_addresses(request: pytest.FixtureRequest) -> dict[str, object]:
    """Where the services are, started on first use."""
    worker_input = getattr(request.config, "workerinput", None)
    if worker_input is not None:
        return dict(worker_input[ADDRESSES])
    return _addresses(request.config)


@pytest.fixture(scope="session")
def postgres_url(service_addresses: dict[str, object]) -> str:
    """The test server's maintenance database."""
    return str(service_addresses["postgres"])


@pytest.fixture(scope="session")
def redis_url(service_addresses: dict[str, object]) -> str:
    """The test message broker's database 0; tests take ``redis_database_url``."""
    return f"redis://:{service_addresses['redis_password']}@127.0.0.1:{service_addresses['redis_port']}/0"


@pytest.fixture(scope="session")
def cipher() -> FernetCipher:
    """The cipher that the template database's secrets were encrypted with."""
    return FernetCipher(SECRET_KEY)


@pytest.fixture(scope="session")
def bare_database(postgres_url: str, cipher: FernetCipher) -> str:
    """The name of a migrated and bootstrapped database that nobody is connected to."""

    def make(name: str) -> None:
        copy_database(postgres_url, "template1", name)
        with connected(postgres_url, name) as engine:
            upgrade(engine)
            bootstrap(engine, default_rights(), encrypt=cipher.encrypt, admin_password=lambda: ADMIN_PASSWORD)
            with engine.begin() as connection:
                cheap = {"hash": cheap_hash(ADMIN_PASSWORD)}
                connection.execute(text("UPDATE users SET password_hash = :hash WHERE username = 'admin'"), cheap)

    return made_once(postgres_url, "bare", make)


@pytest.fixture(scope="session")
def small_zone_database(postgres_url: str, bare_database: str, cipher: FernetCipher) -> str:
    """The name of a database with the small zone that nobody is connected to."""

    def make(name: str) -> None:
        copy_database(postgres_url, bare_database, name)
        with connected(postgres_url, name) as engine:
            load_zone(engine, cipher, SMALL_ZONE)

    return made_once(postgres_url, "small", make)


@contextmanager
def connected(admin_url: str, database: str) -> Iterator[Engine]:
    """An engine on a database of the test server."""
    engine = create_engine(with_database(admin_url, database), pool_size=1)
    try:
        yield engine
    finally:
        engine.dispose()


@pytest.fixture(scope="session")
def template_database(bare_database: str) -> str:
    """What a test's own database begins as; folders whose tests begin with the small zone say so."""
    return bare_database


@pytest.fixture
def database_url(postgres_url: str, template_database: str) -> Iterator[str]:
    """A fresh clone of the template database."""
    with database_clone(postgres_url, template_database) as url:
        yield url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An engine on the test's own database."""
    engine = create_engine(without_time_limits(database_url), pool_size=20)
    yield engine
    engine.dispose()


@pytest.fixture
def redis_database_url(redis_url: str, redis_database_number: int) -> str:
    """The test's own database of the message broker, empty."""
    return redis_url.removesuffix("/0") + f"/{redis_database_number}"


@pytest.fixture
def redis_database_number(request: pytest.FixtureRequest) -> int:
    """A database number that no other test of this run has."""
    return unused_redis_database(request.config)


def unused_redis_database(config: pytest.Config) -> int:
    """A number of the message broker's databases that nobody of this run was given yet."""
    worker_input = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 1})
    stash = config.stash
    stash[NUMBER] = stash.get(NUMBER, 0) + 1
    number = stash[NUMBER] * int(worker_input["workercount"]) + int(worker_input["workerid"].removeprefix("gw"))
    if number >= REDIS_DATABASES:
        raise ValueError("The test run needs more databases of the message broker than it has")
    return number


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """A directory for data of embedded servers, which run as another account where we are root.

    ``tmp_path`` is none: whenever a pytest starts, it closes the directory above to other accounts.
    """
    with server_directory() as folder:
        yield folder


@pytest.fixture
def settings(database_url: str, redis_database_url: str, tmp_path: Path) -> Settings:
    """Settings of a process that works on the test's own services."""
    return Settings(
        database_url=database_url,
        redis_url=redis_database_url,
        data_dir=tmp_path / "data",
        secret_key=SecretStr(SECRET_KEY),
        admin_password=SecretStr(ADMIN_PASSWORD),
        drivers={"default": "simulator"},
    )


@pytest.fixture
def system(settings: Settings, engine: Engine, cipher: FernetCipher) -> Iterator[System]:
    """What use cases work with, on the test's own services."""
    reading = create_reading_engine(settings.require_database_url(), pool_size=20)
    yield System(engine, build_job_queue(settings), cipher, settings.data_dir, SIMULATED, reader=reading)
    reading.dispose()


@pytest.fixture
def api_url(system: System) -> Iterator[str]:
    """A running API server's URL."""
    from bulkdeploy.api.app import create_app

    with serving(create_app(system, refuse_undeclared_fields=True)) as url:
        yield url


@pytest.fixture
def client(api_url: str, engine: Engine, cipher: FernetCipher) -> ApiClient:
    """A client that signs as the default admin."""
    with engine.connect() as connection:
        admin = admin_row(connection)
    if admin is None:
        raise AssertionError("The template database has no admin")
    return ApiClient(api_url, admin.api_key, cipher.decrypt(admin.secret_key_encrypted))
