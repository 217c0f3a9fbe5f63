"""Limits on how often an account calls, over all processes of the API."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, func, update

from bulkdeploy.api.app import create_app
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.services.system import System
from bulkdeploy.store.configuration.configurations import GLOBAL_ID, write_values
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.store.tables.accounts import api_calls
from bulkdeploy.wiring.cipher import FernetCipher
from tests.support.api.accounts import add_user
from tests.support.api.api_client import ApiClient
from tests.support.api.api_server import serving

HOUR = 3600
Throttle = Callable[..., None]


@pytest.fixture
def throttle(engine: Engine) -> Throttle:
    """Switch throttling on: so many calls per hour."""

    def switch(most: int, *, enabled: str = "true") -> None:
        values = {"enabled": enabled, "interval": str(HOUR), "max": str(most)}
        with engine.begin() as connection:
            settings = {
                (Scope.GLOBAL, GLOBAL_ID, f"api.throttling.{name}"): value for name, value in values.items()
            }
            write_values(connection, settings)

    return switch


@pytest.fixture
def ann(client: ApiClient, engine: Engine, cipher: FernetCipher) -> ApiClient:
    """An ordinary user."""
    user = add_user(engine, cipher, "ann")
    return ApiClient(client.url, user.api_key, user.secret_key)


def statuses(client: ApiClient, calls: int) -> list[int]:
    """The statuses of so many calls, one after the other."""
    return [client.get("listCapabilities").status for _ in range(calls)]


def test_calls_above_the_limit(ann: ApiClient, throttle: Throttle) -> None:
    """The call after the last allowed one is refused, with the time to wait in its text and in a header."""
    throttle(3)
    assert statuses(ann, 3) == [200] * 3
    answer = ann.get("listCapabilities")
    assert (answer.status, answer.body["errorcode"], answer.body["cserrorcode"]) == (429, 429, 4545)
    assert answer.body["errortext"].startswith("The given user has reached his/her account api limit, please retry")
    assert HOUR - 60 < int(answer.headers["Retry-After"]) <= HOUR


def test_off_by_default(ann: ApiClient, throttle: Throttle) -> None:
    """Nothing is counted unless it is switched on, and from then on it is, at once."""
    assert statuses(ann, 2) == [200] * 2
    throttle(1)
    assert statuses(ann, 2) == [200, 429]
    throttle(1, enabled="false")
    assert statuses(ann, 2) == [200] * 2


def test_root_admins_are_exempt(client: ApiClient, throttle: Throttle) -> None:
    """Whoever operates the service is never locked out by its limits."""
    throttle(1)
    assert statuses(client, 4) == [200] * 4


def test_forged_calls_do_not_count(ann: ApiClient, throttle: Throttle) -> None:
    """Who knows only an API key cannot use up its owner's calls."""
    throttle(1)
    assert statuses(ApiClient(ann.url, ann.api_key, "wrong"), 3) == [401] * 3
    assert statuses(ann, 1) == [200]


def test_the_next_interval(ann: ApiClient, engine: Engine, throttle: Throttle) -> None:
    """When the interval is over, counting begins anew."""
    throttle(1)
    assert statuses(ann, 2) == [200, 429]
    with engine.begin() as connection:
        ago = func.make_interval(0, 0, 0, 0, 0, 0, HOUR)
        connection.execute(update(api_calls).values(interval_began=api_calls.c.interval_began - ago))
    assert ann.call("getApiLimit")["apilimit"]["apiIssued"] == 1
    assert statuses(ann, 1) == [429]


def test_the_limit_holds_across_processes(
    ann: ApiClient, system: System, database_url: str, throttle: Throttle
) -> None:
    """Two servers that share nothing but the database let through, together, exactly what is allowed."""
    throttle(7)
    other_engine = create_engine(database_url, pool_size=20)
    other = System(other_engine, system.job_queue, system.cipher, system.data_dir)
    with serving(create_app(other)) as url, ThreadPoolExecutor(8) as pool:
        clients = [ann, ApiClient(url, ann.api_key, ann.secret_key)] * 10
        answers = list(pool.map(lambda client: client.get("listCapabilities").status, clients))
    other_engine.dispose()
    assert sorted(answers) == [200] * 7 + [429] * 13


def test_what_is_left(client: ApiClient, ann: ApiClient, throttle: Throttle) -> None:
    """GetApiLimit tells an account where it stands; resetApiLimit lets it begin anew."""
    throttle(3)
    assert statuses(ann, 1) == [200]
    limit = ann.call("getApiLimit")["apilimit"]
    assert (limit["account"], limit["apiIssued"], limit["apiAllowed"]) == ("ann", 2, 1)
    assert HOUR - 60 < limit["expireAfter"] <= HOUR
    assert ann.get("resetApiLimit").status == 432
    assert client.call("resetApiLimit", account=limit["accountid"]) == {"success": True}
    assert statuses(ann, 4) == [200, 200, 200, 429]
    assert client.call("resetApiLimit") == {"success": True}
    assert statuses(ann, 1) == [200]


def test_the_exempt_have_everything_left(client: ApiClient, throttle: Throttle) -> None:
    """An account that is not counted has issued nothing."""
    throttle(3)
    limit = client.call("getApiLimit")["apilimit"]
    assert (limit["apiIssued"], limit["apiAllowed"], limit["expireAfter"]) == (0, 3, HOUR)
