"""Passwords of guests: generated or given, stored encrypted, and returned in the result of the job that set them.

The VM's row stores the password for the hypervisor, which passes it to the guest at the next start. The job's
result stores the password for the account of the caller, until the job expires. Both are encrypted, so neither a
dump of the database nor listAsyncJobs shows the password.
"""

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.starts import GuestPasswords
from bulkdeploy.services.abilities import require_ability
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.passwords import new_guest_password
from bulkdeploy.services.system import Cipher, System
from bulkdeploy.services.virtual_machines.virtual_machine_changes import Change, changing, shown, vm_reference
from bulkdeploy.store.jobs.job_results import ENCRYPTED_PASSWORD
from bulkdeploy.store.virtual_machines.virtual_machine_changes import takes_passwords, update_vm

RESET = Change(EventType.VM_RESET_PASSWORD, "reset the password of", frozenset({VmState.STOPPED}))
COMMAND = "org.apache.cloudstack.api.command.user.vm.ResetVMPasswordCmd"
VM_KEY, PASSWORD, ENCRYPTED = "virtualmachine", "password", ENCRYPTED_PASSWORD
GIVEN = re.compile(r"[!-~]{6,128}", re.ASCII)


def reset_password(
    connection: Connection, system: System, caller: Caller, vm: EntityRef, given: str | None
) -> JobTicket:
    """Change the password of a stopped VM to ``given``, or to a random one if ``given`` is None.

    The guest uses the new password from its next start.

    Raises:
        PermissionDenied: the caller may not access the VM.
        InvalidParameter: the VM is not stopped, its hypervisor or its template does not support passwords, or the
            given password violates the rule.
    """
    if given is not None and not GIVEN.fullmatch(given):
        raise InvalidParameter(PASSWORD, "...", "it must be 6 to 128 ASCII characters without spaces")
    with changing(connection, caller, vm, RESET) as (row, _):
        require_ability(system.drivers, row.hypervisor, GuestPasswords, "id", str(vm.uuid))
        if not takes_passwords(connection, row.template_id):
            raise InvalidParameter(
                "id", str(vm.uuid), "the VM was deployed from a template that is not password enabled"
            )
        result = with_password(connection, system.cipher, vm, given)
        return done_with_object(connection, caller, COMMAND, VM_KEY, result, vm_reference(vm))


def with_password(connection: Connection, cipher: Cipher, vm: EntityRef, given: str | None) -> Mapping[str, Any]:
    """Write a password to a locked VM, and return the VM as a job result that contains the password.

    If ``given`` is None, the password is random.
    """
    encrypted = new_guest_password(cipher) if given is None else cipher.encrypt(given)
    update_vm(connection, vm.id, {"password_encrypted": encrypted})
    return {**shown(connection, vm), ENCRYPTED: encrypted.decode()}


def reported(job: Mapping[str, Any], cipher: Cipher | None) -> Mapping[str, Any]:
    """Return the fields of a job with the decrypted password in its result if the job set a password.

    Without a cipher, the password is left out.
    """
    result = job.get("jobresult") or {}
    row = result.get(VM_KEY) or {}
    if ENCRYPTED not in row:
        return job
    open_row = {name: value for name, value in row.items() if name != ENCRYPTED}
    if cipher is not None:
        open_row[PASSWORD] = cipher.decrypt(row[ENCRYPTED].encode())
    return {**job, "jobresult": {**result, VM_KEY: open_row}}
