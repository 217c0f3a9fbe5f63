"""The revisions of the schema that this release knows, and the check of a database's revision.

The migrations of a release have two halves, ``pre`` and ``post``, which are part of their file names. The previous
release still works after the ``pre`` migrations, which run before the new code starts. The ``post`` migrations run
when no old code is left. In the sequence of revisions, the ``pre`` migrations of a release come before its ``post``
migrations. Therefore a release works with every database that has all of its own ``pre`` migrations and no ``post``
migration of a later release. This module does not import Alembic, because every program uses this module at its
start.
"""

from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg.errors import UndefinedTable
from sqlalchemy import Engine, event

VERSIONS = Path(__file__).parent / "versions"

APPLIED = "schema_revisions"
"""Table of every revision that was ever applied: a later release's ``post`` ones are known by it."""

_STATE = f"SELECT (SELECT version_num FROM alembic_version), array(SELECT revision FROM {APPLIED} ORDER BY 1)"  # noqa: S608


class SchemaMismatch(Exception):
    """Raised when this release cannot work with the schema of the database."""


class SchemaTooOld(SchemaMismatch):
    """Raised when the database lacks migrations that must run before this release starts."""

    def __init__(self, revision: str | None) -> None:
        self.revision = revision
        super().__init__(
            f"The database has revision {revision or 'none'}, and this release needs {needed_revision()}: run "
            "`bulkdeploy db upgrade --half pre` of this release"
        )


class SchemaNotReleased(SchemaMismatch):
    """Raised when the database has a revision that was merged into a later one before its release."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        joined = next(known for known in known_revisions() if known > revision)
        super().__init__(
            f"The database has revision {revision}, which no release has: upgrade it with the build that made it "
            f"or a later one, to {joined}. Then use this release"
        )


class SchemaTooNew(SchemaMismatch):
    """Raised when a later release has changed the database so that this release cannot work with it."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        super().__init__(
            f"A later release ended its upgrade of the database ({revision}, which this release does not know): "
            "use that release"
        )


@cache
def known_revisions() -> tuple[str, ...]:
    """Return all revisions of this release, the oldest first."""
    return tuple(sorted(file.stem for file in VERSIONS.glob("[0-9]*.py")))


def is_post(revision: str) -> bool:
    """Return whether a revision is a ``post`` migration, after which no older release works."""
    return "_post_" in revision


def needed_revision() -> str:
    """Return the newest ``pre`` revision, which the programs of this release need to start."""
    return next(revision for revision in reversed(known_revisions()) if not is_post(revision))


def refuse_other_releases(engine: Engine) -> None:
    """Make new connections of ``engine`` fail with SchemaMismatch while the schema does not fit this release.

    Programs treat such a database as unreachable: they are not ready, and wait until the schema fits.
    """
    event.listen(engine, "connect", _require_fitting)


def _require_fitting(connection: psycopg.Connection[Any], record: object) -> None:
    del record
    try:
        current, applied = connection.execute(_STATE).fetchone() or (None, [])
    except UndefinedTable as error:
        raise SchemaTooOld(None) from error
    finally:
        connection.rollback()
    require_fitting(current, applied)


def require_fitting(current: str | None, applied: list[str]) -> None:
    """Check the revisions of a database against the revisions that this release knows.

    Raises:
        SchemaNotReleased: the database's revision ``current`` is older than this release needs, and unknown.
        SchemaTooOld: ``current`` is older than this release needs, and known.
        SchemaTooNew: ``applied`` contains a ``post`` migration of a later release.
    """
    known = known_revisions()
    for revision in applied:
        if is_post(revision) and revision not in known:
            raise SchemaTooNew(revision)
    if current is None or current < needed_revision():  # revisions begin with their number
        raise SchemaTooOld(current) if current is None or current in known else SchemaNotReleased(current)
