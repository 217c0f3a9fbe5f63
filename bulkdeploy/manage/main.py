"""The product's command, ``bulkdeploy``: runs the service and looks after its data.

Subcommands live one per module and are imported when they are used, so that ``--help`` is instant
and a process loads only what it runs.
"""

import importlib
from pathlib import Path

import click

COMMANDS = {
    "up": "bulkdeploy.manage.up:up",
    "api": "bulkdeploy.manage.api:api",
    "worker": "bulkdeploy.manage.workers:worker",
    "sweeper": "bulkdeploy.manage.workers:sweeper",
    "db": "bulkdeploy.manage.database:database",
    "admin": "bulkdeploy.manage.admin:admin",
    "inventory": "bulkdeploy.manage.inventory:inventory",
    "simulator": "bulkdeploy.manage.simulator:simulator",
    "audit": "bulkdeploy.manage.audit:audit",
    "demo": "bulkdeploy.manage.demo:demo",
    "report": "bulkdeploy.manage.report:report",
}
"""Where each subcommand is: ``module:attribute``."""


class LazyGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order in which one meets them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a subcommand; what an operator can mend is told in one line, without a traceback."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            from bulkdeploy.manage.failures import is_for_the_operator

            if is_for_the_operator(error):
                raise click.ClickException(str(error).strip()) from error
            raise


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="BULKDEPLOY_CONFIG",
    help="TOML file with settings (config/default.toml lists them); environment variables win over it.",
)
@click.version_option(package_name="bulkdeploy")
@click.pass_context
def main(ctx: click.Context, config_file: Path | None) -> None:
    """Deploys many virtual machines with one call of Apache CloudStack's API.

    Start with: bulkdeploy up --demo-zone
    """
    ctx.obj = config_file


if __name__ == "__main__":
    main()
