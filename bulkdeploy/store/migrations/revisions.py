"""The revisions of the schema that this release knows, and the check of a database's revision.

Migrations come in two halves (their file names say ``pre`` or ``post``): ``pre`` ones leave the previous release
working and run before the new code starts, ``post`` ones run when no old code is left. A release's ``pre`` always
stands before its ``post`` in the one line of revisions. So a release works with every database that has all of its
own ``pre`` ones and no ``post`` one of a later release. Nothing here loads Alembic: every program asks.
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
    """The database is not one that this release can work with."""


class SchemaTooOld(SchemaMismatch):
    """The database lacks migrations that this release needs before it starts."""

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
    """Return whether it is of the half that no older release survives."""
    return "_post_" in revision


def needed_revision() -> str:
    """Return the newest ``pre`` revision, which the programs of this release need to start."""
    return next(revision for revision in reversed(known_revisions()) if not is_post(revision))


def refuse_other_releases(engine: Engine) -> None:
    """Make new connections of ``engine`` fail with SchemaMismatch while the schema does not fit this release.

    Such a database counts as unreachable: programs are not ready, and wait until it fits.
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
        SchemaNotReleased: ``current``, its revision, is older than the newest ``pre`` of this release, and unknown.
        SchemaTooOld: ``current`` is older than that, and known.
        SchemaTooNew: among those ``applied`` is a ``post`` of a later release.
    """
    known = known_revisions()
    for revision in applied:
        if is_post(revision) and revision not in known:
            raise SchemaTooNew(revision)
    if current is None or current < needed_revision():  # revisions begin with their number
        raise SchemaTooOld(current) if current is None or current in known else SchemaNotReleased(current)
