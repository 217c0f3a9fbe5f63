"""``bulkdeploy db``: creates the schema and the first rows, and runs backups and restores."""

from functools import partial
from pathlib import Path

import click

from bulkdeploy.manage.configuration import service_settings, settings_of
from bulkdeploy.wiring.settings import Settings


@click.group("db")
def database() -> None:
    """Create and upgrade the database schema, back the database up and restore it."""


@database.command("upgrade")
@click.option(
    "--half",
    type=click.Choice(["pre", "post", "all"]),
    default="all",
    show_default=True,
    help="pre: what the release that runs can live with, before programs of this one start; post: the rest, when "
    "none of it is left; all: both, while no program of another release runs.",
)
@click.pass_context
def upgrade_command(ctx: click.Context, half: str) -> None:
    """Bring the schema to this release's and write the first rows. Safe to repeat, and at once from many."""
    settings = service_settings(ctx, "database_url")
    prepare(settings, half=half)
    click.echo(
        "The database is ready." if half != "pre" else "The database is ready for programs of both releases."
    )


@database.command("revision")
@click.pass_context
def revision_command(ctx: click.Context) -> None:
    """Show the database's revision and the newest one."""
    from bulkdeploy.store.migrations.upgrade import current_revision, newest_revision
    from bulkdeploy.wiring.system import build_engine

    settings = service_settings(ctx, "database_url")
    engine = build_engine(settings, of_any_release=True)
    with engine.connect() as connection:
        click.echo(f"database: {current_revision(connection) or 'empty'}\nnewest:   {newest_revision()}")
    engine.dispose()


@database.command("restored")
@click.pass_context
def restored_command(ctx: click.Context) -> None:
    """Prepare a restored database. Run this after a restore and before programs start.

    Numbers that were used after the backup (of jobs, guests, MAC addresses) are not used again. The command can be
    repeated.
    """
    _skip_numbers(service_settings(ctx, "database_url"))


@database.command("dump")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_context
def dump_command(ctx: click.Context, file: Path) -> None:
    """Write a consistent snapshot of the database to a new FILE. Programs can run meanwhile.

    The database of an `up` with --data-dir, running or stopped, needs no installed programs of PostgreSQL. Store
    the secret key, too, in another place.
    """
    from bulkdeploy.manage import backups

    backups.dump(settings_of(ctx), file)
    click.echo(f"The database is in {file}.")


@database.command("restore")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask whether to replace what the database holds.")
@click.pass_context
def restore_command(ctx: click.Context, file: Path, yes: bool) -> None:
    """Replace the contents of the database by the dump FILE, and run `db restored`.

    All programs of bulkdeploy must be stopped.
    """
    from bulkdeploy.manage import backups

    if not yes:
        click.confirm("All that the database holds now is lost. Restore?", abort=True)
    with backups.restored(settings_of(ctx), file) as settings:
        _skip_numbers(settings)


def _skip_numbers(settings: Settings) -> None:
    """Increase the database's sequences beyond any number that was in use, and print the next steps."""
    from bulkdeploy.provisioning.assignment import LEASES_PER_JOB
    from bulkdeploy.store.database.engine import run_transaction
    from bulkdeploy.store.database.restored import LEAD, skip_numbers
    from bulkdeploy.wiring.system import build_engine

    engine = build_engine(settings, application_name="bulkdeploy restored")
    try:
        run_transaction(engine, partial(skip_numbers, leases_per_job=LEASES_PER_JOB))
    finally:
        engine.dispose()
    click.echo(f"Numbers go on {LEAD} higher. Next: bulkdeploy audit, bulkdeploy unmanaged list.")


def prepare(settings: Settings, *, half: str = "all") -> None:
    """Migrate and bootstrap the configured database.

    Raises:
        SchemaMismatch: the schema is newer than this release supports, or the wrong half was requested.
        UpgradeNotEnded: only half of the previous upgrade was done.
        SecretKeyWrong: the secrets in the database were encrypted with another key.
    """
    from bulkdeploy.commands.registry import default_rights
    from bulkdeploy.store.database.bootstrap import admin_row, bootstrap
    from bulkdeploy.store.migrations.upgrade import Half, upgrade
    from bulkdeploy.wiring.cipher import build_cipher
    from bulkdeploy.wiring.system import build_engine, first_admin_password

    engine = build_engine(settings, application_name="bulkdeploy upgrade", of_any_release=True)
    try:
        cipher = build_cipher(settings)
        upgrade(engine, Half(half))
        bootstrap(
            engine,
            default_rights(),
            encrypt=cipher.encrypt,
            admin_password=lambda: first_admin_password(settings),
        )
        with engine.connect() as connection:
            if (admin := admin_row(connection)) is not None:
                cipher.decrypt(admin.secret_key_encrypted)
    finally:
        engine.dispose()
