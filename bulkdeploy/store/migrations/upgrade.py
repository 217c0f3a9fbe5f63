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
    """The migrations to run."""

    PRE = "pre"
    POST = "post"
    ALL = "all"


class UpgradeNotEnded(BulkDeployError):
    """The first half is asked for while the second half of an earlier upgrade is missing."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        super().__init__(
            f"An earlier upgrade was not ended: {revision} is missing. Run `bulkdeploy db upgrade --half post` of "
            "the release that runs now; or stop all programs and run `bulkdeploy db upgrade`"
        )


class TablesInUse(BulkDeployError):
    """A transaction holds tables for longer than an upgrade waits."""

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
        SchemaNotReleased: it has a revision that no release has.
        SchemaTooNew: a later release has ended its upgrade.
        SchemaTooOld: the second half is asked for, and the first one was not run.
        TablesInUse: they were, each of MOST_TRIES times; nothing was changed.
        UpgradeNotEnded: the first half is asked for, and a second one before it was not run.
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
    """Return the database's revision, or None for an empty one."""
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
