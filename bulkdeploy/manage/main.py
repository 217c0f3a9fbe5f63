"""The command ``bulkdeploy``, which runs the service and manages its data.

Subcommands live one per module and are imported when they are used, so that ``--help`` is instant
and a process loads only what it runs.
"""

import importlib
from pathlib import Path

import click

from bulkdeploy.manage.invocation import Invocation
from bulkdeploy.wiring.garbage import collect_seldom

COMMANDS = {
    "up": ("bulkdeploy.manage.up:up", "Run the whole service on this machine."),
    "api": ("bulkdeploy.manage.programs.api:api", "Serve the HTTP API."),
    "worker": ("bulkdeploy.manage.programs.workers:worker", "Run jobs."),
    "sweeper": ("bulkdeploy.manage.programs.workers:sweeper", "Recover lost, stuck and expired jobs."),
    "confd": ("bulkdeploy.manage.programs.confd:confd", "Answer on UDP where every VM is."),
    "db": ("bulkdeploy.manage.database:database", "Create and upgrade the database schema."),
    "admin": ("bulkdeploy.manage.admin:admin", "Show the administrator's keys."),
    "inventory": ("bulkdeploy.manage.zone_files.inventory:inventory", "Load, export or generate zones."),
    "import": ("bulkdeploy.manage.importing:import_", "Take over what another cloud has."),
    "follow": ("bulkdeploy.manage.following:follow", "Keep up with what another cloud does."),
    "simulator": (
        "bulkdeploy.manage.simulator.command:simulator",
        "Inject failures and delays into simulated hypervisors.",
    ),
    "iallocator": ("bulkdeploy.manage.iallocator:iallocator", "Show zones as allocator programs see them."),
    "hosts": ("bulkdeploy.manage.hypervisors.hosts:hosts", "Give all hosts the files that they have in common."),
    "storage": ("bulkdeploy.manage.hypervisors.storage:storage", "List, stop and repair what hosts keep data on."),
    "check": ("bulkdeploy.manage.check:check", "Try what hypervisors need to be hosts."),
    "audit": ("bulkdeploy.manage.auditing.audit:audit", "Check every invariant."),
    "heal": ("bulkdeploy.manage.auditing.heal:heal", "Mend what the audit finds broken."),
    "unmanaged": ("bulkdeploy.manage.hypervisors.unmanaged:unmanaged", "Adopt or remove guests that no row knows."),
    "demo": ("bulkdeploy.manage.demo.command:demo", "Deploy 200 VMs with one call and show where they went."),
    "report": ("bulkdeploy.manage.demo.report:report", "Draw where a deployment's VMs went."),
}
"""Where each subcommand is (``module:attribute``), and what it does."""


class LazyGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order in which a new user needs them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or None if there is no command with this name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        collect_seldom()
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands to the help text without importing the commands."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Run a subcommand. Errors that an operator can correct are printed as one line, without a traceback."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            from bulkdeploy.manage.failures import in_words, is_for_the_operator

            if is_for_the_operator(error):
                raise click.ClickException(in_words(error)) from error
            raise


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="BULKDEPLOY_CONFIG",
    help="TOML file with settings (config/default.toml lists them); environment variables win over it.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the embedded servers' data and of generated secrets, instead of the setting.",
)
@click.version_option(package_name="bulkdeploy")
@click.pass_context
def main(ctx: click.Context, config_file: Path | None, data_dir: Path | None) -> None:
    """Deploys many virtual machines with one call of Apache CloudStack's API.

    Start with: bulkdeploy up --demo-zone
    """
    ctx.obj = Invocation(config_file, data_dir)


if __name__ == "__main__":
    main()
