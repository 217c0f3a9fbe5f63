"""The URLs of Redis: one server, or Sentinels that know the primary server.

``redis://:password@host:6379/0`` (``rediss://`` with TLS) is one server.
``sentinel://:password@one:26379,two:26379/0?master=mymaster`` are Sentinels, whose ports are optional. The password
is that of the server; with ``&sentinelauth=true`` it is also that of the Sentinels. The client asks a Sentinel for
the primary at each new connection.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from redis import Redis
from redis.sentinel import Sentinel

ONE_SERVER = ("redis", "rediss")
SENTINEL = "sentinel"
SENTINEL_PORT = 26379
PARAMETERS = {"master", "sentinelauth"}


@dataclass(frozen=True, slots=True)
class _Sentinels:
    addresses: list[tuple[str, int]]
    primary: str
    database: int
    username: str | None
    password: str | None
    share_the_password: bool

    @property
    def own_options(self) -> dict[str, Any]:
        """The options of connections to the Sentinels."""
        return {"password": self.password} if self.share_the_password else {}


def check_redis_url(url: str) -> None:
    """Check that a URL names one Redis server or Sentinels.

    Raises:
        ValueError: the URL is not valid; the text is the rule that it breaks.
    """
    parts = urlsplit(url)
    if parts.scheme == SENTINEL:
        _sentinels(parts)
    elif parts.scheme not in ONE_SERVER:
        raise ValueError("must start with redis://, rediss:// or sentinel://")
    elif "," in parts.netloc.rpartition("@")[2]:
        raise ValueError(
            "must name one server, as redis://:password@host:6379/0, or Sentinels, as sentinel://one,two/0"
        )
    else:
        parts.port  # noqa: B018 - raises ValueError for an invalid port


def redis_client(url: str, **options: Any) -> Redis:
    """Return a client of the Redis server.

    With Sentinels, it is a client of the present primary.

    ``options`` are the options of the client's connections.
    """
    parts = urlsplit(url)
    if parts.scheme != SENTINEL:
        return Redis.from_url(url, **options)
    found = _sentinels(parts)
    timeouts = {name: value for name, value in options.items() if name.startswith("socket_")}
    manager = Sentinel(  # type: ignore[no-untyped-call] # ships types in part
        found.addresses, sentinel_kwargs={**timeouts, **found.own_options}
    )
    client: Redis = manager.master_for(  # type: ignore[no-untyped-call]
        found.primary, db=found.database, username=found.username, password=found.password, **options
    )
    return client


def celery_broker(url: str) -> tuple[str, dict[str, Any]]:
    """Return Celery's ``broker_url`` and additional transport options for a Redis URL."""
    parts = urlsplit(url)
    if parts.scheme != SENTINEL:
        return url, {}
    found = _sentinels(parts)
    user, _, _ = parts.netloc.rpartition("@")
    at = f"{user}@" if user else ""
    urls = [f"{SENTINEL}://{at}{quote(host)}:{port}/{found.database}" for host, port in found.addresses]
    return ";".join(urls), {"master_name": found.primary, "sentinel_kwargs": found.own_options}


def _sentinels(parts: SplitResult) -> _Sentinels:
    user, _, hosts = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(set(parameters) - PARAMETERS):
        raise ValueError(f"has parameters that Sentinels do not have: {', '.join(unknown)}")
    database = parts.path.strip("/") or "0"
    if not database.isdecimal():
        raise ValueError("must end with the number of a database, as sentinel://one:26379,two:26379/0")
    if not parameters.get("master"):
        raise ValueError("must name the primary that the Sentinels watch, as sentinel://one,two/0?master=mymaster")
    return _Sentinels(
        [_address(each) for each in hosts.split(",")],
        parameters["master"],
        int(database),
        unquote(name) or None,
        unquote(password) or None,
        parameters.get("sentinelauth") == "true",
    )


def _address(text: str) -> tuple[str, int]:
    one = urlsplit(f"//{text}")
    if not one.hostname:
        raise ValueError(
            "must name every Sentinel by its host, as sentinel://one:26379,two:26379/0?master=mymaster"
        )
    return one.hostname, one.port or SENTINEL_PORT
