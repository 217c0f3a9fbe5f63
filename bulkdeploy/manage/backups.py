"""``bulkdeploy db dump`` and ``db restore``: backups with PostgreSQL's own programs.

The programs are those beside the embedded server or on PATH: the ones of the server's release, or else newer ones.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from sqlalchemy.exc import SQLAlchemyError

from bulkdeploy.embedded.data_lock import DataDirectoryInUse, exclusive
from bulkdeploy.embedded.postgres import PostgresServer, binaries
from bulkdeploy.embedded.processes import ServerFailed
from bulkdeploy.manage.programs.stack import DATABASE
from bulkdeploy.manage.running import with_running_services
from bulkdeploy.wiring.settings import Settings

EMPTY_SCHEMA = "DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public"
SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND backend_type = 'client backend'"
)


def dump(settings: Settings, file: Path) -> None:
    """Write a consistent snapshot of the database to a new file. Running programs are not affected.

    Raises:
        click.ClickException: the file exists, or PostgreSQL's program is missing or failed; then there is no file.
    """
    if file.exists():
        raise click.ClickException(f"{file} exists: name a new file")
    draft = file.with_name(f"{file.name}.part")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    try:
        with _server(settings) as reachable:
            _run("pg_dump", ["--format=custom", "--no-owner", f"--file={draft}"], reachable)
        draft.rename(file)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def restored(settings: Settings, file: Path) -> Iterator[Settings]:
    """Replace the contents of the database by a dump, and yield the settings while the database server runs.

    Raises:
        click.ClickException: the file is not a dump, or other programs are connected to the database: nothing is
        changed. Or PostgreSQL's program is missing or failed. If it failed after the check of the file, the
        database is empty, and the restore must be repeated.
    """
    from bulkdeploy.wiring.system import build_engine

    _run("pg_restore", ["--list", str(file)], None)
    with _server(settings, must_be_idle=True) as reachable:
        engine = build_engine(reachable, application_name="bulkdeploy restore", of_any_release=True)
        try:
            with engine.begin() as connection:
                if (others := connection.exec_driver_sql(SESSIONS).scalar_one()) > 0:
                    raise click.ClickException(
                        f"{others} sessions use the database: stop all programs of bulkdeploy before a restore"
                    )
                connection.exec_driver_sql(EMPTY_SCHEMA)
        finally:
            engine.dispose()
        arguments = ["--no-owner", "--exit-on-error", "--single-transaction", str(file)]
        _run("pg_restore", arguments, reachable)
        yield reachable


@contextmanager
def _server(settings: Settings, *, must_be_idle: bool = False) -> Iterator[Settings]:
    """Yield the settings of a reachable database.

    This is the configured database, or else the embedded one, which is started if necessary.

    Raises:
        click.ClickException: ``must_be_idle`` is true and ``up`` runs in data_dir; or there is no database; or the
        embedded server does not start.
    """
    found = with_running_services(settings)
    if settings.database_url is not None or (found.database_url is not None and not must_be_idle):
        yield found
        return
    data = settings.data_dir.absolute()
    if not (data / "postgres" / "PG_VERSION").exists() and not must_be_idle:
        raise click.ClickException(f"{data} has no database, and database_url is not set")
    postgres = PostgresServer(data / "postgres", data / "logs" / "postgres.log")
    try:
        with exclusive(data):
            try:
                postgres.start()
                _make_database(postgres)
                yield settings.model_copy(update={"database_url": postgres.url(DATABASE)})
            finally:
                postgres.stop()
    except (DataDirectoryInUse, ServerFailed) as error:
        raise click.ClickException(str(error)) from error


def _make_database(postgres: PostgresServer) -> None:
    from bulkdeploy.store.database.database import ensure_database

    ensure_database(postgres.url(), DATABASE)


def _run(name: str, arguments: Sequence[str], reachable: Settings | None) -> None:
    """Run a PostgreSQL program, on the database of ``reachable`` if given. The password is not in the arguments.

    Raises:
        click.ClickException: the program is not installed, or ended with an error.
    """
    environment, major = dict(os.environ), 0
    if reachable is not None:
        major = _server_major(reachable)
        from psycopg.conninfo import make_conninfo

        from bulkdeploy.store.database.database_url import database_parameters

        parameters = database_parameters(reachable.require_database_url())
        password = parameters.pop("password", None)
        if password is None and reachable.database_password is not None:
            password = reachable.database_password.get_secret_value()
        if password is not None:
            environment["PGPASSWORD"] = password
        arguments = [f"--dbname={make_conninfo(**parameters)}", *arguments]
    ended = subprocess.run(  # noqa: S603 - PostgreSQL's own program
        [_program(name, major), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
    )
    if ended.returncode:
        raise click.ClickException(f"{name} failed: {ended.stderr.strip() or ended.returncode}")


def _program(name: str, server_major: int) -> Path:
    """Return the program whose release is closest to the server's: not older, or the newest if all are older.

    Raises:
        click.ClickException: no program with this name is installed.
    """
    found = {_major(place): place for place in _places(name)}
    if not found:
        raise click.ClickException(f"{name} is not on PATH. Install PostgreSQL's client programs")
    return (
        found[min((major for major in found if major >= server_major), default=max(found))]
        if server_major
        else found[max(found)]
    )


def _places(name: str) -> Iterator[Path]:
    """Yield the paths of the program, on PATH and beside the embedded server."""
    if (on_path := shutil.which(name)) is not None:
        yield Path(on_path)
    try:
        yield binaries() / name
    except ServerFailed:
        return


def _major(program: Path) -> int:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - its own
    found = re.search(r"\) (\d+)", said.stdout)
    return int(found[1]) if found else 0


def _server_major(settings: Settings) -> int:
    from bulkdeploy.wiring.system import build_engine

    engine = build_engine(settings, application_name="bulkdeploy backup", of_any_release=True)
    try:
        with engine.connect() as connection:
            return int(connection.exec_driver_sql("SHOW server_version_num").scalar_one()) // 10_000
    except SQLAlchemyError as error:
        raise click.ClickException(f"The database does not answer: {error.__cause__ or error}") from error
    finally:
        engine.dispose()
