"""``bulkdeploy db``: the schema and the first rows."""

from functools import partial

import click

from bulkdeploy.manage.configuration import service_settings
from bulkdeploy.wiring.settings import Settings


@click.group("db")
def database() -> None:
    """Create and upgrade the database schema."""


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
    """Say that the database was put back to an earlier moment: after a restore, before programs start.

    Numbers that were given out since (of jobs, guests, MAC addresses) are not given out again. Safe to repeat.
    """
    from bulkdeploy.provisioning.assignment import LEASES_PER_JOB
    from bulkdeploy.store.database.engine import run_transaction
    from bulkdeploy.store.database.restored import LEAD, skip_numbers
    from bulkdeploy.wiring.system import build_engine

    settings = service_settings(ctx, "database_url")
    engine = build_engine(settings, application_name="bulkdeploy restored")
    try:
        run_transaction(engine, partial(skip_numbers, leases_per_job=LEASES_PER_JOB))
    finally:
        engine.dispose()
    click.echo(f"Numbers go on {LEAD} higher. Next: bulkdeploy audit, bulkdeploy unmanaged list.")


def prepare(settings: Settings, *, half: str = "all") -> None:
    """Migrate and bootstrap the configured database.

    Raises:
        SchemaMismatch: the database is too far ahead of this release, or the wrong half is asked for.
        UpgradeNotEnded: the one before this upgrade is only half done.
        SecretKeyWrong: its secrets were encrypted with another key.
    """
    from bulkdeploy.commands.registry import default_rights
    from bulkdeploy.store.database.bootstrap import admin_row, bootstrap
    from bulkdeploy.store.migrations.upgrade import Half, upgrade
    from bulkdeploy.wiring.system import build_cipher, build_engine, first_admin_password

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
