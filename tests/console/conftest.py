"""The console before the API of a small zone, and people who sign in."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.api.app import create_app
from bulkdeploy.console.app import with_console
from bulkdeploy.services.system import System
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.conftest import ADMIN_PASSWORD
from tests.support.api.api_server import serving
from tests.support.api.console_client import Visitor
from tests.support.hypervisors.drivers import SIMULATED
from tests.support.processes.services import database_clone, without_time_limits
from tests.support.zones.zone_queries import Zone

ALICE, ALICES_PASSWORD = "acme", "alices password"


@pytest.fixture(scope="session")
def console_engine(postgres_url: str, small_zone_database: str) -> Iterator[Engine]:
    """The database of all these tests: each makes deployments of its own."""
    with database_clone(postgres_url, small_zone_database) as url:
        engine = create_engine(without_time_limits(url), pool_size=10)
        yield engine
        engine.dispose()


@pytest.fixture(scope="session")
def console_system(
    console_engine: Engine, redis_url: str, cipher: FernetCipher, tmp_path_factory: pytest.TempPathFactory
) -> System:
    """What the API before that database works with."""
    url = console_engine.url.render_as_string(hide_password=False)
    settings = Settings(database_url=url, redis_url=redis_url, data_dir=tmp_path_factory.mktemp("console"))
    return System(console_engine, build_job_queue(settings), cipher, settings.data_dir, SIMULATED)


@pytest.fixture(scope="session")
def console_url(console_system: System) -> Iterator[str]:
    """Where API and console are served."""
    with serving(with_console(create_app(console_system, refuse_undeclared_fields=True))) as url:
        yield url


@pytest.fixture(scope="session")
def zone_ids(console_engine: Engine) -> Zone:
    """The names and ids of what the zone holds."""
    return Zone(console_engine)


@pytest.fixture
def visitor(console_url: str) -> Iterator[Callable[[], Visitor]]:
    """People with a browser each, not signed in."""
    people: list[Visitor] = []

    def come() -> Visitor:
        people.append(Visitor(console_url))
        return people[-1]

    yield come
    for person in people:
        person.close()


@pytest.fixture(scope="module")
def admin(console_url: str) -> Iterator[Visitor]:
    """The root admin, signed in for the tests of a module: a session ends after half an hour without a call."""
    person = Visitor(console_url)
    person.sign_in("admin", ADMIN_PASSWORD)
    yield person
    person.close()


@pytest.fixture
def own_session(visitor: Callable[[], Visitor]) -> Visitor:
    """The root admin with a session that a test may end."""
    person = visitor()
    person.sign_in("admin", ADMIN_PASSWORD, next="theme")
    return person


@pytest.fixture(scope="module")
def alice(console_url: str) -> Iterator[Visitor]:
    """A user, signed in for the tests of a module."""
    person = Visitor(console_url)
    person.sign_in(ALICE, ALICES_PASSWORD, domain="/ROOT/customers/acme")
    yield person
    person.close()


@pytest.fixture
def count_of(console_engine: Engine) -> Callable[[str], int]:
    """How many rows a table has."""

    def count(table: str) -> int:
        with console_engine.connect() as connection:
            return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())

    return count
