"""Bringing a database's schema to this release's, safely from several processes at once.

Migrations come in two halves (their file names say ``pre`` or ``post``): ``pre`` ones leave the
previous release working and run before the new code starts, ``post`` ones run when no old code is
left. A release's ``pre`` always stands before its ``post`` in the one line of revisions.
"""

from enum import StrEnum
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from bulkdeploy.domain.errors import BulkDeployError
from bulkdeploy.store.locks import Lock, take_lock


class Half(StrEnum):
    """Which migrations to run."""

    PRE = "pre"
    ALL = "all"


class SchemaTooNew(BulkDeployError):
    """The database was migrated by a later release than this one."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        super().__init__(f"The database has revision {revision}, which this release does not know; use a later one")


def upgrade(engine: Engine, half: Half = Half.ALL) -> None:
    """Run what is missing, all in one transaction.

    Raises:
        SchemaTooNew: the database is ahead of this release.
    """
    with engine.begin() as connection:
        take_lock(connection, Lock.SCHEMA)
        configuration = _configuration(connection)
        scripts = ScriptDirectory.from_config(configuration)
        current = current_revision(connection)
        if current is not None and current not in {script.revision for script in scripts.walk_revisions()}:
            raise SchemaTooNew(current)
        target = _target(scripts, half)
        if target is not None and current != target:
            command.upgrade(configuration, target)


def current_revision(connection: Connection) -> str | None:
    """The database's revision, or None for an empty one."""
    return MigrationContext.configure(connection).get_current_revision()


def newest_revision() -> str | None:
    """The last revision this release knows."""
    return ScriptDirectory.from_config(_configuration(None)).get_current_head()


def _target(scripts: ScriptDirectory, half: Half) -> str | None:
    """The newest revision of the wanted half; ``walk_revisions`` goes from the newest down."""
    return next((s.revision for s in scripts.walk_revisions() if half is Half.ALL or "_pre_" in s.revision), None)


def _configuration(connection: Connection | None) -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", str(Path(__file__).parent))
    configuration.set_main_option("path_separator", "os")
    configuration.attributes["connection"] = connection
    return configuration
