"""The permission to make a template or ISO public."""

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller, Owner, RoleType
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.store.configuration.configurations import read_configuration

SETTING = "allow.public.user.templates"


def may_be_public(connection: Connection, caller: Caller, account_id: int) -> bool:
    """Return whether the caller may make a template of this account public.

    Admins always may. Users may only if the account's setting allows public templates.
    """
    if caller.role_type is not RoleType.USER:
        return True
    return read_configuration(connection).flag(SETTING, Scope.ACCOUNT, account_id)


def check_publicity(connection: Connection, caller: Caller, owner: Owner, *, is_public: bool) -> None:
    """Raise PermissionDenied if a template or ISO is to be public and the caller may not make it public.

    Raises:
        PermissionDenied: the caller is a user, and the account's setting forbids public templates.
    """
    if is_public and not may_be_public(connection, caller, owner.account_id):
        raise PermissionDenied(f"Users may not make templates and ISOs public: the setting {SETTING} is false")
