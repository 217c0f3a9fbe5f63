"""One database with things of every kind and owner, behind a real API server, for all reading tests."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.api.app import create_app
from bulkdeploy.console.calls import Wsgi
from bulkdeploy.services.system import Cipher, System
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.support.api.api_client import ApiClient
from tests.support.api.api_server import serving
from tests.support.hypervisors.drivers import SIMULATED
from tests.support.processes.services import database_clone, without_time_limits

ADMIN, DOMAIN_ADMIN, USER, NEIGHBOUR, RIVAL = "admin", "customers-admin", "acme", "neighbour", "rival"


class World:
    """Clients by user name, and ids by table and name."""

    def __init__(self, engine: Engine, url: str, cipher: Cipher) -> None:
        self.engine, self.url, self.cipher = engine, url, cipher
        self._clients: dict[str, ApiClient] = {}

    def client(self, username: str = ADMIN) -> ApiClient:
        """A client that signs as this user, with keys of its own."""
        if username not in self._clients:
            api_key, secret_key = secrets.token_urlsafe(64), secrets.token_urlsafe(64)
            with self.engine.begin() as connection:
                connection.execute(
                    text(
                        "INSERT INTO api_keys (user_id, api_key, secret_key_encrypted)"
                        " SELECT id, :key, :secret FROM users WHERE username = :name"
                    ),
                    {"key": api_key, "secret": self.cipher.encrypt(secret_key), "name": username},
                )
            self._clients[username] = ApiClient(self.url, api_key, secret_key)
        return self._clients[username]

    def id_of(self, table: str, name: str, column: str = "name") -> str:
        """The uuid of a row by its name."""
        return str(self.scalar(f"SELECT uuid FROM {table} WHERE {column} = :name", name=name))

    def scalar(self, sql: str, **parameters: object) -> Any:
        """One value."""
        with self.engine.connect() as connection:
            return connection.execute(text(sql), parameters).scalar_one()

    def change(self, sql: str, **parameters: object) -> None:
        """Change the world behind the API's back; only for tests with a world of their own."""
        with self.engine.begin() as connection:
            connection.execute(text(sql), parameters)

    def rows(self, command: str, by: str = ADMIN, **parameters: object) -> list[dict[str, Any]]:
        """All rows of a list command, called by a user."""
        body = self.client(by).call(command, **parameters)
        lists = [value for key, value in body.items() if key != "count"]
        return list(lists[0]) if lists else []

    def names(self, command: str, by: str = ADMIN, **parameters: object) -> list[str]:
        """The names of all rows, in order."""
        return [row["name"] for row in self.rows(command, by, **parameters)]

    def deploy(self, name: str, account: str | None = None, domain: str | None = None, **more: object) -> None:
        """Deploy a VM of this name for an account, or with ``projectid`` for a project."""
        parameters = {
            "zoneid": self.id_of("zones", "small"),
            "serviceofferingid": self.id_of("service_offerings", "Small"),
            "templateid": self.id_of("templates", "Debian 12"),
            "networkids": self.id_of("networks", "guests"),
            "name": name,
            **more,
        }
        if account is not None and domain is not None:
            parameters |= {"account": account, "domainid": self.id_of("domains", domain)}
        self.client().call("deployVirtualMachine", **parameters)


def deploy_vms(world: World) -> None:
    """VMs of every owner; those of acme with key pair, user data and groups."""
    for number in (1, 2):
        world.deploy(
            f"acme-{number}",
            "acme",
            "acme",
            keypair="laptop",
            userdata="aGVsbG8=",
            group="web",
            affinitygroupids=world.id_of("affinity_groups", "apart"),
            **{"userdatadetails[0].role": "web"},
        )
    for name in ("acme-destroyed", "acme-expunging", "acme-gone"):
        world.deploy(name, "acme", "acme")
    world.deploy("neighbour-1", "neighbour", "acme")
    world.deploy("rival-1", "rival", "rivals")
    world.deploy("admin-1")
    world.deploy("moon-1", projectid=world.id_of("projects", "moon"))


def nothing_before(app: Wsgi) -> Wsgi:
    """The application itself."""
    return app


@contextmanager
def open_world(
    request: pytest.FixtureRequest, template: str, *, before: Callable[[Wsgi], Wsgi] = nothing_before
) -> Iterator[World]:
    """A clone of this database behind a server of its own; what stands before its application sees each call."""
    cipher = request.getfixturevalue("cipher")
    folder = request.getfixturevalue("tmp_path_factory").mktemp("data")
    with database_clone(request.getfixturevalue("postgres_url"), template) as url:
        engine = create_engine(without_time_limits(url), pool_size=20)
        settings = Settings(database_url=url, redis_url=request.getfixturevalue("redis_url"), data_dir=folder)
        system = System(engine, build_job_queue(settings), cipher, settings.data_dir, SIMULATED)
        with serving(before(create_app(system, refuse_undeclared_fields=True))) as address:
            yield World(engine, address, cipher)
        engine.dispose()
