"""Network permissions, which allow other accounts of the owner's domain to have VMs in a network.

If a permission is removed, VMs that are in the network stay there.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import AccountType, Caller, Owner
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.owned_entities import lock_own
from bulkdeploy.services.ownership import project_owner, require_access
from bulkdeploy.store.accounts.owners import lock_accounts, owners_by_name
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.networks import network_permissions as store
from bulkdeploy.store.networks.network_changes import owner_and_offering


def create_permissions(
    connection: Connection,
    caller: Caller,
    network: EntityRef,
    names: Sequence[str],
    uuids: Sequence[str],
    projects: Sequence[EntityRef],
) -> None:
    """Permit accounts and projects to have VMs in a network.

    The owner of the network and accounts that already have the permission are skipped.

    Raises:
        InvalidParameter: the network was deleted, or belongs to a domain or a project; or an account is not in the
            domain of the network's owner.
        PermissionDenied: the caller may not access the network or a project.
    """
    row, owner = _lock_network(connection, caller, network)
    chosen = _accounts(connection, caller, owner, names, uuids, projects)
    store.add_permissions(connection, row.id, lock_accounts(connection, chosen - {owner.account_id}))
    _record(connection, caller, network, owner, f"let accounts have VMs in network {row.name}")


def remove_permissions(
    connection: Connection,
    caller: Caller,
    network: EntityRef,
    names: Sequence[str],
    uuids: Sequence[str],
    projects: Sequence[EntityRef],
) -> None:
    """Remove the permissions of accounts and projects to have VMs in a network.

    Raises:
        InvalidParameter, PermissionDenied: under the same conditions as ``create_permissions``.
    """
    row, owner = _lock_network(connection, caller, network)
    store.remove_permissions(connection, [row.id], _accounts(connection, caller, owner, names, uuids, projects))
    _record(connection, caller, network, owner, f"took permissions for network {row.name} back")


def reset_permissions(connection: Connection, caller: Caller, network: EntityRef) -> None:
    """Remove the permissions of all accounts and projects to have VMs in a network.

    Raises:
        InvalidParameter, PermissionDenied: under the same conditions as ``create_permissions``.
    """
    row, owner = _lock_network(connection, caller, network)
    store.remove_permissions(connection, [row.id])
    _record(connection, caller, network, owner, f"took all permissions for network {row.name} back")


def list_permissions(connection: Connection, caller: Caller, network: EntityRef) -> list[Mapping[str, Any]]:
    """Return the permissions for a network.

    Raises:
        PermissionDenied: the caller may not access the network.
    """
    account_id, _ = owner_and_offering(connection, network.id)
    require_access(connection, caller, account_id, f"network {network.uuid}")
    return store.list_permissions(connection, network.id)


def _lock_network(connection: Connection, caller: Caller, network: EntityRef) -> tuple[Row[Any], Owner]:
    row, owner = lock_own(connection, caller, network, "network", "networkid")
    if row.acl_type == "Domain":
        raise InvalidParameter("networkid", str(network.uuid), "the network is shared with a domain already")
    if owner.account_type is AccountType.PROJECT:
        rule = "the network belongs to a project, whose networks are not shared"
        raise InvalidParameter("networkid", str(network.uuid), rule)
    return row, owner


def _accounts(
    connection: Connection,
    caller: Caller,
    owner: Owner,
    names: Sequence[str],
    uuids: Sequence[str],
    projects: Sequence[EntityRef],
) -> set[int]:
    """Return the accounts that a call names. Raises an error if an account is not in the owner's domain."""
    found: set[int] = set()
    by_name = owners_by_name(connection, [(name, owner.domain_id) for name in names])
    for name in names:
        named = by_name.get((name.lower(), owner.domain_id))
        if named is None:
            raise InvalidParameter("accounts", name, f"there is no such account in domain {owner.domain_uuid}")
        found.add(named.account_id)
    by_uuid = store.accounts_by_uuid(connection, [uuid for uuid in uuids if _is_uuid(uuid)], owner.domain_id)
    for uuid in uuids:
        if uuid.lower() not in by_uuid:
            raise InvalidParameter("accountids", uuid, f"there is no such account in domain {owner.domain_uuid}")
        found.add(by_uuid[uuid.lower()])
    for project in projects:
        of_project = project_owner(connection, caller, project.id)
        if of_project.domain_id != owner.domain_id:
            raise InvalidParameter("projectids", str(project.uuid), f"it is not in domain {owner.domain_uuid}")
        found.add(of_project.account_id)
    return found


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _record(connection: Connection, caller: Caller, network: EntityRef, owner: Owner, text: str) -> None:
    about = Instance("Network", network.id, network.uuid)
    record_event(connection, caller, EventType.NETWORK_PERMISSION_UPDATE, text, about, owner)
