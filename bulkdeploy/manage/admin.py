"""``bulkdeploy admin``: the credentials of the default administrator, and the encryption of stored secrets."""

import json
from collections.abc import Mapping

import click

from bulkdeploy.manage.configuration import require, service_settings, settings_of
from bulkdeploy.wiring.settings import Settings

PROFILE = "admin"


@click.group()
def admin() -> None:
    """Manage the default administrator."""


@admin.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for scripts.")
@click.option("--profile", "as_profile", is_flag=True, help="A configuration file for bulkmonkey or CloudMonkey.")
@click.pass_context
def credentials(ctx: click.Context, as_json: bool, as_profile: bool) -> None:
    """Print the API's URL and the administrator's keys, and the password if it is still the generated one.

    Without a configured database, the database of a running `up` in data_dir is used.
    """
    found = read_credentials(settings_of(ctx))
    if as_json:
        click.echo(json.dumps(found))
        return
    if as_profile:
        click.echo(profile_text(found), nl=False)
        return
    width = max(map(len, found))
    for name, value in found.items():
        click.echo(f"{name:<{width}}  {value}")


@admin.command()
@click.pass_context
def reencrypt(ctx: click.Context) -> None:
    """Encrypt every stored secret again with the first key of secret_key.

    docs/how-to/operations.md, Passwords and keys, describes how to change this key. The command is safe while the
    service runs, and can be repeated.
    """
    from bulkdeploy.store.accounts.encrypted_secrets import encrypt_anew
    from bulkdeploy.store.database.engine import run_transaction
    from bulkdeploy.wiring.cipher import build_cipher
    from bulkdeploy.wiring.system import build_engine

    settings = service_settings(ctx, "database_url")
    cipher = build_cipher(settings)
    engine = build_engine(settings, application_name="bulkdeploy reencrypt")
    try:
        count = run_transaction(engine, lambda connection: encrypt_anew(connection, cipher.encrypt_anew))
    finally:
        engine.dispose()
    click.echo(f"{count} secrets are encrypted with the first key.")


def read_credentials(settings: Settings) -> dict[str, str]:
    """Return ``url``, ``username``, ``apikey`` and ``secretkey`` of the default administrator.

    The result also contains ``password`` if the generated password is still valid.

    Raises:
        click.ClickException: no database is configured, or it has no admin yet.
        SecretKeyWrong: the secrets in the database were encrypted with another key.
    """
    from bulkdeploy.manage.running import with_running_services
    from bulkdeploy.store.database.bootstrap import admin_row
    from bulkdeploy.wiring.cipher import build_cipher
    from bulkdeploy.wiring.system import build_engine

    settings = with_running_services(settings)
    require(settings, "database_url")
    engine = build_engine(settings)
    try:
        with engine.connect() as connection:
            row = admin_row(connection)
        if row is None:
            raise click.ClickException("There is no admin yet: run `bulkdeploy db upgrade`")
        secret = build_cipher(settings).decrypt(row.secret_key_encrypted)
    finally:
        engine.dispose()
    found = {
        "url": f"{settings.url}/client/api",
        "username": row.username,
        "apikey": row.api_key,
        "secretkey": secret,
    }
    password = _generated_password(settings, row.password_hash)
    return found if password is None else {**found, "password": password}


def profile_text(found: Mapping[str, str]) -> str:
    """Return a configuration file with the profile ``admin`` in the format of CloudMonkey and bulkmonkey."""
    keys = "".join(f"{name} = {found[name]}\n" for name in ("url", "apikey", "secretkey"))
    return f"profile = {PROFILE}\n\n[{PROFILE}]\n{keys}"


def _generated_password(settings: Settings, password_hash: str | None) -> str | None:
    """Return the generated first password, or None if it is not the present password."""
    from argon2 import PasswordHasher
    from argon2.exceptions import Argon2Error, InvalidHashError

    from bulkdeploy.wiring.secret_files import ADMIN_PASSWORD_FILE

    file = settings.data_dir / ADMIN_PASSWORD_FILE
    if password_hash is None or not file.is_file():
        return None
    password = file.read_text().strip()
    try:
        PasswordHasher().verify(password_hash, password)
    except (Argon2Error, InvalidHashError):
        return None
    return password
