"""The check whether a caller may use a command. Command handlers check which objects the caller may use."""

import json

from bulkdeploy.declare.command import Command
from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.errors import CommandNotAvailable, UnknownCommand


def require_permission(caller: Caller, command: Command) -> None:
    """Reject a caller whose role does not allow the command.

    The first rule of the role that matches decides. If no rule matches, ``command.authorized`` decides.

    Raises:
        CommandNotAvailable: the role does not allow the command.
    """
    if not caller.may_call(command.name, command.authorized):
        raise CommandNotAvailable(command.name, _shown(caller.owner))


def unknown_command(caller: Caller, name: str) -> UnknownCommand | CommandNotAvailable:
    """Return the error for a command that does not exist.

    Callers other than root admins get the same error as for a command that they may not call.
    """
    if caller.is_root_admin:
        return UnknownCommand(name)
    return CommandNotAvailable(name, _shown(caller.owner))


def _shown(owner: Owner) -> str:
    """Return an account as CloudStack writes it in this error text.

    Cluster API's provider searches the text for the word ``Account``.
    """
    named = json.dumps({"accountName": owner.account_name, "uuid": str(owner.account_uuid)}, ensure_ascii=False)
    return f"Account [{named}]"
