"""The upgrade of a database's schema to this release. Several processes may run it at the same time."""

import time
from enum import StrEnum
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.exc import DBAPIError

from bulkdeploy.domain.errors import BulkDeployError
from bulkdeploy.store.locks import Lock, take_lock
from bulkdeploy.store.migrations.revisions import (
    SchemaTooOld,
    is_post,
    known_revisions,
    needed_revision,
    require_fitting,
)
from bulkdeploy.store.tables.revisions import schema_revisions

LOCK_WAIT_S = 3
MOST_TRIES = 100


class Half(StrEnum):
    """The part of the missing migrations that an upgrade runs: ``pre``, ``post`` or all."""

    PRE = "pre"
    POST = "post"
    ALL = "all"


class UpgradeNotEnded(BulkDeployError):
    """Raised when ``pre`` migrations are requested while ``post`` migrations of an earlier upgrade are missing."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        super().__init__(
            f"An earlier upgrade was not ended: {revision} is missing. Run `bulkdeploy db upgrade --half post` of "
            "the release that runs now; or stop all programs and run `bulkdeploy db upgrade`"
        )


class TablesInUse(BulkDeployError):
    """Raised when another transaction keeps tables locked for longer than an upgrade waits."""

    def __init__(self) -> None:
        super().__init__(
            "A long transaction, such as a dump or an audit, reads tables that the upgrade changes. Nothing was "
            "changed: run it again once that has ended"
        )


def upgrade(engine: Engine, half: Half = Half.ALL) -> None:
    """Run the missing migrations, all in one transaction.

    An empty database gets all migrations, whichever half is requested, because no older programs use it. If a later
    release has begun an upgrade and not completed it, the database fits this release, and nothing is done. If a
    table is locked for long, for example by a dump, the transaction is rolled back and repeated. Therefore calls
    that queue behind the upgrade wait at most LOCK_WAIT_S.

    Raises:
        SchemaNotReleased: the database has a revision that no release has.
        SchemaTooNew: a later release has completed its upgrade.
        SchemaTooOld: the ``post`` half was requested, but the ``pre`` half was not run.
        TablesInUse: tables were locked in each of MOST_TRIES attempts; nothing was changed.
        UpgradeNotEnded: the ``pre`` half was requested, but the ``post`` half of an earlier release was not run.
    """
    for _ in range(MOST_TRIES):
        try:
            _upgrade(engine, half)
        except (DBAPIError, LockNotAvailable) as error:
            if not isinstance(getattr(error, "orig", error), LockNotAvailable):
                raise
            time.sleep(LOCK_WAIT_S)
        else:
            return
    raise TablesInUse


def _upgrade(engine: Engine, half: Half) -> None:
    with engine.begin() as connection:
        take_lock(connection, Lock.SCHEMA)
        connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_WAIT_S}s'"))
        schema_revisions.create(connection, checkfirst=True)
        current = current_revision(connection)
        applied = list(connection.execute(select(schema_revisions.c.revision)).scalars())
        target = _target(current, applied, half)
        if target is not None:
            command.upgrade(_configuration(connection), target)


def current_revision(connection: Connection) -> str | None:
    """Return the revision of the database's schema, or None if the database is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def newest_revision() -> str:
    """Return the newest revision that this release knows."""
    return known_revisions()[-1]


def _target(current: str | None, applied: list[str], half: Half) -> str | None:
    """Return the revision to which the schema is migrated, or None if there is nothing to do."""
    known = known_revisions()
    if current is None:
        return newest_revision()
    if current not in known:
        require_fitting(current, applied)
        return None
    target = needed_revision() if half is Half.PRE else newest_revision()
    missing = known[known.index(current) + 1 : known.index(target) + 1]
    if half is Half.POST and not all(map(is_post, missing)):
        raise SchemaTooOld(current)
    if half is Half.PRE and any(map(is_post, missing)):
        raise UpgradeNotEnded(next(filter(is_post, missing)))
    return target if missing else None


def _configuration(connection: Connection) -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", str(Path(__file__).parent))
    configuration.set_main_option("path_separator", "os")
    configuration.attributes["connection"] = connection
    return configuration
