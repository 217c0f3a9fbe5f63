"""Backups of a test's database by PostgreSQL's own programs, as the guide says to make them."""

import subprocess
from pathlib import Path

from sqlalchemy import Engine

from bulkdeploy.embedded.postgres import binaries


def dump(engine: Engine, file: Path) -> None:
    """Write what the database has now to a file."""
    _run("pg_dump", engine, "--format=custom", f"--file={file}")


def restore(engine: Engine, file: Path) -> None:
    """Put the database back to what it had then."""
    engine.dispose()
    _run("pg_restore", engine, "--clean", "--if-exists", "--single-transaction", str(file))


def _run(program: str, engine: Engine, *arguments: str) -> None:
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    subprocess.run([binaries() / program, f"--dbname={url}", *arguments], check=True)
