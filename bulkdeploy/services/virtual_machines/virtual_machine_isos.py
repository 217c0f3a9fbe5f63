"""ISOs put into the drives of VMs and taken out (reference section 8.8).

A VM has one drive. What is in it is a matter of rows: drivers are not told, so that a running guest notices
nothing, and a guest that starts boots from its root disk.
"""

from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller, Owner
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.virtual_machines.virtual_machine_changes import Change, about, changing, shown
from bulkdeploy.store.deployments.deployment_facts import read_template
from bulkdeploy.store.virtual_machines.virtual_machine_changes import iso_of, update_vm

STABLE_STATES = frozenset({VmState.RUNNING, VmState.STOPPED})
ATTACH = Change(EventType.ISO_ATTACH, "attach an ISO to", STABLE_STATES, "virtualmachineid")
DETACH = Change(EventType.ISO_DETACH, "detach the ISO of", STABLE_STATES, "virtualmachineid")
COMMANDS = "org.apache.cloudstack.api.command.user.iso"
EMPTY = 0


def attach_iso(connection: Connection, caller: Caller, iso: EntityRef, vm: EntityRef, *, forced: bool) -> JobTicket:
    """Put an ISO into a VM's drive; ``forced``: in place of the one that is there. The job's result is the VM.

    Raises:
        PermissionDenied: the VM is not the caller's to touch, or its owner may not use the ISO.
        InvalidParameter: the VM's state, a drive that is not empty, or an ISO that its zone does not have.
    """
    with changing(connection, caller, vm, ATTACH) as (row, owner):
        _check_iso(connection, iso, row, owner)
        there = iso_of(connection, row.id)
        if there is not None and there.id != iso.id and not forced:
            rule = (
                f"ISO {there.name} is in its drive; detachIso takes it out, forced=true puts this one in its place"
            )
            raise InvalidParameter("virtualmachineid", str(vm.uuid), rule)
        update_vm(connection, row.id, {"iso_id": iso.id})
        return _ticket(connection, caller, vm, "AttachIso")


def detach_iso(connection: Connection, caller: Caller, vm: EntityRef) -> JobTicket:
    """Take the ISO out of a VM's drive; the job's result is the VM.

    Raises:
        PermissionDenied: the VM is not the caller's to touch.
        InvalidParameter: its state, or a drive that is empty.
    """
    with changing(connection, caller, vm, DETACH) as (row, _):
        if iso_of(connection, row.id) is None:
            raise InvalidParameter("virtualmachineid", str(vm.uuid), "no ISO is attached to it")
        update_vm(connection, row.id, {"iso_id": EMPTY})
        return _ticket(connection, caller, vm, "DetachIso")


def _check_iso(connection: Connection, iso: EntityRef, row: Row[Any], owner: Owner) -> None:
    shown_id = str(iso.uuid)
    facts = read_template(connection, iso.id, row.zone_id, owner)
    if facts is None:
        raise InvalidParameter("id", shown_id, "the ISO was deleted")
    if not (
        facts.is_public or facts.shared_with_owner or facts.owner_id == owner.account_id or owner.is_root_admin
    ):
        raise PermissionDenied(f"Account {owner.account_name} does not have permission to use ISO {shown_id}")
    if not facts.ready:
        raise InvalidParameter("id", shown_id, f"ISO {facts.name} is not ready in the VM's zone")


def _ticket(connection: Connection, caller: Caller, vm: EntityRef, name: str) -> JobTicket:
    cmd = f"{COMMANDS}.{name}Cmd"
    return done_with_object(connection, caller, cmd, "virtualmachine", shown(connection, vm), about(vm))
