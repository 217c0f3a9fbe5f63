"""Whether a caller may use an API at all; what it may use it on is for the handlers."""

from bulkdeploy.declare.command import Command
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.errors import CommandNotAvailable, UnknownCommand


def require_permission(caller: Caller, command: Command) -> None:
    """Let the rules of the caller's role decide and, where none speaks of the command, its declared roles.

    Raises:
        CommandNotAvailable: the caller may not use it.
    """
    if not caller.may_call(command.name, command.roles):
        raise CommandNotAvailable(command.name, caller.owner.account_name)


def unknown_command(caller: Caller, name: str) -> UnknownCommand | CommandNotAvailable:
    """How a caller is told that there is no such API: others than root admins may not know which there are."""
    if caller.is_root_admin:
        return UnknownCommand(name)
    return CommandNotAvailable(name, caller.owner.account_name)
