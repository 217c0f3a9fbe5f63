"""A small zone to deploy into, and the names and ids of what it holds."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, text

from tests.support.api.api_client import ApiClient
from tests.support.zones.zone_queries import Zone

WHOLE_TABLE = "SELECT count(*), md5(string_agg(t::text, '' ORDER BY t::text)) FROM {} t"


@pytest.fixture(scope="session")
def template_database(small_zone_database: str) -> str:
    """Tests begin with the small zone."""
    return small_zone_database


@pytest.fixture
def zone(engine: Engine) -> Zone:
    """The small zone."""
    return Zone(engine)


@pytest.fixture
def bulk(client: ApiClient, zone: Zone) -> Callable[..., dict[str, Any]]:
    """Calls bulkDeployVirtualMachine for account acme; what a test gives replaces or adds to that."""

    def call(count: int = 4, **parameters: object) -> dict[str, Any]:
        return client.call("bulkDeployVirtualMachine", **zone.bulk_parameters(count, **parameters))

    return call


class TableChanges:
    """Whether any table that a deploy call writes has changed since the last mark."""

    TABLES = (
        *("deployments", "virtual_machines", "volumes", "nics", "host_claims", "storage_claims", "async_jobs"),
        *("outbox", "events", "resource_counts", "released_addresses", "vm_security_groups"),
        *("vm_affinity_groups", "instance_groups"),
    )

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.mark()

    def mark(self) -> None:
        """Forget all changes until now."""
        self._before = self._picture()

    def __call__(self) -> bool:
        """True when nothing has changed since the mark."""
        return self._picture() == self._before

    def _picture(self) -> list[Any]:
        with self._engine.connect() as connection:
            tables = [tuple(connection.execute(text(WHOLE_TABLE.format(name))).one()) for name in self.TABLES]
            sums = connection.execute(
                text(
                    "SELECT (SELECT sum(cpu_mhz_used) FROM host_capacity), (SELECT sum(allocated_bytes)"
                    " FROM storage_pools), (SELECT string_agg(next_ip::text, ',') FROM ip_ranges)"
                )
            ).one()
            return [*tables, tuple(sums)]


@pytest.fixture
def nothing_written(zone: Zone) -> TableChanges:
    """The accounting as they are once the zone is loaded."""
    return TableChanges(zone.engine)
