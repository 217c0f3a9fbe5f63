"""The settings of subcommands. Wrong settings are reported in one line with exit code 1, without a traceback."""

from typing import Any

import click
from pydantic import ValidationError

from bulkdeploy.manage.invocation import Invocation
from bulkdeploy.manage.running import with_running_services
from bulkdeploy.wiring.settings import ENVIRONMENT_PREFIX, SettingMissing, Settings, load_settings


def settings_of(ctx: click.Context, **overrides: Any) -> Settings:
    """Return the settings of this invocation.

    Values in ``overrides`` that are not None replace the configured ones.

    Raises:
        click.ClickException: a value is not allowed, or the configuration file cannot be read.
    """
    said = ctx.find_root().obj
    invocation = said if isinstance(said, Invocation) else Invocation()
    given = {name: value for name, value in overrides.items() if value is not None}
    if invocation.data_dir is not None:
        given.setdefault("data_dir", invocation.data_dir)
    try:
        return load_settings(invocation.config_file, **given)
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors())
        text = "\n  ".join(lines)
        raise click.ClickException(
            f"Settings are wrong (file given with --config, or {ENVIRONMENT_PREFIX}... variables):\n  {text}"
        ) from error
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def service_settings(ctx: click.Context, *required: str) -> Settings:
    """Return the settings of a command that connects to the database or other services.

    The addresses of the services that ``up`` runs in data_dir are used unless the settings name another database.

    Raises:
        click.ClickException: a value is not allowed, the configuration file cannot be read, or one of ``required``
        is not set; the error names the setting and its environment variable.
    """
    settings = with_running_services(settings_of(ctx))
    require(settings, *required)
    return settings


def require(settings: Settings, *names: str) -> None:
    """Reject settings in which one of ``names`` is not set.

    Raises:
        click.ClickException: a setting is not set. The error names the setting and its environment variable.
    """
    for name in names:
        if getattr(settings, name) is None:
            raise click.ClickException(str(SettingMissing(name)))
