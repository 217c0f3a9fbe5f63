"""Moving a stopped VM to another account, with its volumes, their tags and all resource counts."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.deployments.deployment import DeployRequest
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.scheduling.vm_snapshots import check_no_snapshots_of_volumes
from bulkdeploy.services.deployments.deployment_checks import check_offering
from bulkdeploy.services.deployments.deployment_networks import requested_security_groups
from bulkdeploy.services.ownership import NamedOwner, lock_owner
from bulkdeploy.services.virtual_machines.virtual_machine_changes import Change, changing, compute_of, count, shown
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.deployments.deployment_facts import read_networks, read_template, read_zone
from bulkdeploy.store.virtual_machines import virtual_machine_changes as rows

ASSIGN = Change(
    EventType.VM_ASSIGN, "assign", frozenset({VmState.STOPPED}), "virtualmachineid", spoils_snapshots=True
)


def assign_virtual_machine(
    connection: Connection,
    caller: Caller,
    vm: EntityRef,
    named: NamedOwner,
    security_groups: tuple[EntityRef, ...] | None,
) -> Mapping[str, Any]:
    """Move a stopped VM to another account or project, and return the fields of the VM.

    The VM keeps its NICs, so the new owner must be allowed to use its networks. The VM is removed from its affinity
    groups and its instance group, loses its SSH key pairs, and is added to security groups of the new owner.

    Raises:
        PermissionDenied: the caller may not access the VM or the new owner, or the new owner may not use its
            template, offering or networks.
        InvalidParameter: the VM is not stopped, already belongs to that owner, or has snapshots of itself or of its
            volumes.
        ResourceLimitExceeded: a limit of the new owner would be exceeded.
    """
    moved: list[tuple[Owner, ResourceAmounts]] = []

    def counts(connection: Connection, row: Row[Any], owner: Owner) -> ResourceAmounts:
        """Count the VM and its volumes for the new owner, and return the negative amounts for the old owner."""
        new_owner = lock_owner(connection, caller, named)
        _check_new_owner(connection, row, owner, new_owner)
        amounts = compute_of(row).plus(rows.volume_amounts(connection, row.id))
        count(connection, new_owner, amounts)
        moved[:] = [(new_owner, amounts)]
        return amounts.times(-1)

    with changing(connection, caller, vm, ASSIGN, counts) as (row, _):
        check_no_snapshots_of_volumes(connection, row.id, ASSIGN.parameter, vm.uuid)
        ((new_owner, amounts),) = moved
        if amounts != compute_of(row).plus(rows.volume_amounts(connection, row.id)):
            raise TransactionConflict
        groups = _security_groups(connection, row, new_owner, security_groups)
        rows.give_to_account(connection, row.id, new_owner.account_id)
        rows.replace_affinity_groups(connection, row.id, ())
        rows.replace_security_groups(connection, row.id, groups)
        return shown(connection, vm)


def _check_new_owner(connection: Connection, row: Row[Any], owner: Owner, new_owner: Owner) -> None:
    """Check that the new owner differs from the present owner and may use the VM's template and networks."""
    if new_owner.account_id == owner.account_id:
        raise InvalidParameter(
            "account", new_owner.account_name, "the virtual machine belongs to this account already"
        )
    zone = read_zone(connection, row.zone_id)
    if zone is None:
        raise InvalidParameter("virtualmachineid", str(row.uuid), "the zone of the VM was deleted")
    check_offering(connection, DeployRequest.of_existing(row), new_owner, zone)
    template = read_template(connection, row.template_id, row.zone_id, new_owner)
    if template is not None and not new_owner.is_root_admin:
        own = template.owner_id == new_owner.account_id
        if not (own or template.is_public or template.shared_with_owner):
            raise PermissionDenied(
                f"Account {new_owner.account_name} does not have permission to use template {template.name}"
            )
    for network in read_networks(connection, ids=rows.network_ids_of(connection, row.id)):
        if not network.is_usable_by(new_owner):
            raise PermissionDenied(
                f"Account {new_owner.account_name} does not have permission to use network {network.name};"
                " remove the virtual machine's nic in this network first"
            )


def _security_groups(
    connection: Connection, row: Row[Any], new_owner: Owner, given: tuple[EntityRef, ...] | None
) -> tuple[int, ...]:
    """Return the internal ids of the named security groups, or of the new owner's default group.

    Returns an empty tuple if the VM's networks do not have security groups.
    """
    networks = read_networks(connection, ids=rows.network_ids_of(connection, row.id))
    if not any(network.has_security_groups for network in networks):
        if given:
            raise InvalidParameter(
                "securitygroupids", str(given[0].uuid), "no network of the virtual machine has security groups"
            )
        return ()
    ids = {ref.id: str(ref.uuid) for ref in given or ()}
    request = DeployRequest.of_existing(row, security_group_ids=tuple(ids), uuids={"securitygroupids": ids})
    return requested_security_groups(connection, request, new_owner)
