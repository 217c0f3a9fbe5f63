"""The start of a VM in an upstream CloudStack."""

import time
from collections.abc import Sequence

from bulkdeploy.cloudstack.client import CallRefused, NotAnswered, Row
from bulkdeploy.domain.units import GIB
from bulkdeploy.drivers.cloudstack.calls import TAKEN, TRANSIENT, JobFailed, failure, job_id_of
from bulkdeploy.drivers.cloudstack.cloudstack_call import (
    ERROR,
    GONE,
    RUNNING,
    STOPPED,
    CloudStackCall,
    custom_sizes,
    host_id_of,
    is_changing,
    owner_of,
    requested_addresses,
)
from bulkdeploy.drivers.errors import refuse_lost_volumes
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.records import GuestOrder

LOOKS_FOR_TAKEN = 30
"""The number of polls that look for a VM whose id is taken, because lists are late by seconds.

If none of the polls finds the VM, the VM counts as removed.
"""


class VmStart:
    """The start of one VM from any state. After a lost response, the VM is looked up before a call is repeated."""

    def __init__(self, call: CloudStackCall, guest: GuestSpec, order: GuestOrder) -> None:
        self._call, self._guest, self._order = call, guest, order
        self._host_id = "" if call.host is None else host_id_of(call.host)
        self._made = False

    def run(self) -> None:
        """Deploy or start the VM, whatever its current state is, until it runs on the call's host.

        Raises:
            DriverError: the VM does not run, as for ``HypervisorDriver.ensure_running``.
        """
        call = self._call
        self._check_password()
        row = self._seen() if call.was_sent else None
        while row is None or row["state"] != RUNNING:
            if call.is_over:
                raise call.error("boot", f"VM {call.vm_id} does not run in time", transient=True)
            row = self._next(row)
        call.check_place("boot", row)
        call.write_addresses(row)
        if not call.records.fences.is_highest(call.guest, call.fence):
            if self._made:
                call.destroy()
            raise call.stale("boot")

    def _check_password(self) -> None:
        """Reject a guest with a password if this CloudStack version cannot set it."""
        call = self._call
        if self._guest.password is None:
            return
        old = call.try_to("boot", lambda: call.calls.version_without_passwords(timeout_s=call.left))
        if old is not None:
            raise call.error(
                "boot",
                f"CloudStack {old} does not accept passwords for guests (4.19 and later do); use a template that"
                " is not passwordenabled",
            )

    def _next(self, row: Row | None) -> Row | None:
        """Run the next step towards a running VM, and return the VM afterwards, or None if it does not exist."""
        call = self._call
        state = None if row is None else row["state"]
        if row is not None and is_changing(row):
            return self._seen()
        if state in GONE or state == ERROR:
            refuse_lost_volumes("volume", call.host_name, self._guest)
            if row is not None:
                call.destroy()
            return self._deploy()
        return self._start(row or {})

    def _deploy(self) -> Row | None:
        """Deploy the VM in CloudStack, and wait until it runs or, if it has data volumes, until it exists."""
        call = self._call
        call.check_fence("boot")
        call.noted = call.records.counterparts.record(call.guest, self._guest.volumes[0].uuid)
        has_data = len(self._guest.volumes) > 1
        while True:
            try:
                call.calls.call("deployVirtualMachine", self._parameters(starts=not has_data), timeout_s=call.left)
                break
            except CallRefused as error:
                if TAKEN not in error.text:
                    raise failure("boot", call.host_name, error) from error
                return self._found_again(error)
            except NotAnswered as error:
                if error.was_sent:
                    return self._seen()
                if call.is_over:
                    raise failure("boot", call.host_name, error) from error
                call.check_fence("boot")
        self._made = True
        return self._settled("deployVirtualMachine", job_id_of(call.vm_id), (STOPPED,) if has_data else ())

    def _found_again(self, refused: CallRefused) -> Row:
        """Return the VM whose id CloudStack reported as taken.

        An earlier deploy call for the VM succeeded or is in progress, although its response was lost.

        Raises:
            DriverError: the VM is not listed, so it was removed.
        """
        call = self._call
        for _ in range(LOOKS_FOR_TAKEN):
            row = self._seen()
            if row is not None:
                return row
        raise call.error("boot", f"{refused}; but CloudStack lists no VM with this id")

    def _start(self, row: Row) -> Row | None:
        """Apply the guest's size, volumes, NICs and keys to a stopped VM, and start it.

        Return the VM afterwards.
        """
        call, guest = self._call, self._guest
        call.check_fence("boot")
        row = call.look("boot", "nics", "servoff") or row
        call.noted = call.records.counterparts.record(call.guest, guest.volumes[0].uuid)
        call.scale("boot", row, guest, self._order)
        call.give_volumes("volume", row, guest, self._order)
        call.give_nics("network", row, guest.nics)
        if guest.password is not None and not self._made:
            call.request("boot", "resetPasswordForVirtualMachine", id=row["id"], password=guest.password)
        if not self._made and self._order.key_pairs and set(_names(row)) != set(self._order.key_pairs):
            names = ",".join(sorted(self._order.key_pairs))
            call.request("boot", "resetSSHKeyForVirtualMachine", id=row["id"], keypairs=names)
        call.check_fence("boot")
        parameters = {"id": row["id"], "hostid": self._host_id}
        try:
            ticket = call.calls.call("startVirtualMachine", parameters, timeout_s=call.left)
        except CallRefused as error:
            seen = self._seen()
            if seen is None or seen["state"] != STOPPED or is_changing(seen):
                return seen  # an earlier call's job has changed the VM
            raise failure("boot", call.host_name, error) from error
        except NotAnswered:
            return self._seen()
        return self._settled("startVirtualMachine", str(ticket["jobid"]), ())

    def _settled(self, command: str, job_id: str, enough: Sequence[str]) -> Row | None:
        """Wait until the job has ended or the VM runs or has failed, and return the VM.

        If ``enough`` is not empty, only the end of the job counts. Failures that the next step can handle are
        ignored.

        Raises:
            DriverError: the job failed for another reason than a restart of its management server.
        """
        call = self._call
        states = (RUNNING, ERROR)
        try:
            row = (
                call.calls.settle(
                    command,
                    call.vm_id,
                    job_id,
                    lambda now: now is not None and now["state"] in states,
                    end=call.end,
                    project=self._order.project_uuid is not None,
                )
                if not enough
                else self._after(command, job_id)
            )
            if row is not None and row["state"] == ERROR:
                self._after(command, job_id)
                raise call.error("boot", f"VM {call.vm_id} is in state Error", transient=True)
        except JobFailed as error:
            row = self._seen()
            if row is not None and row["state"] == RUNNING:
                return row
            if error.was_cut_off and (row is None or row["state"] != ERROR):
                return row
            if row is not None and is_changing(row):
                return row  # an earlier call's job is changing the VM
            raise failure("boot", call.host_name, error) from error
        except NotAnswered:
            return self._seen()
        except CallRefused as error:
            raise failure("boot", call.host_name, error) from error
        return row

    def _after(self, command: str, job_id: str) -> Row | None:
        """Wait until the job has ended, and return the VM, or None if the VM does not exist."""
        call = self._call
        pause = call.calls.poll_s / 4
        while call.calls.has_ended(command, job_id) is False:
            if call.is_over:
                raise NotAnswered(command, f"job {job_id} has not ended in time", was_sent=True)
            time.sleep(pause)
            pause = min(pause * 1.5, 4 * call.calls.poll_s)
        return call.calls.look(call.vm_id, timeout_s=call.left)

    def _seen(self) -> Row | None:
        """Return the VM as the next shared poll finds it, or None if the VM does not exist.

        Failed polls are repeated until the time of the call is over.
        """
        call = self._call
        pause = call.calls.poll_s / 2
        while True:
            try:
                return call.calls.watch(call.vm_id, end=call.end, project=self._order.project_uuid is not None)
            except NotAnswered as error:
                if call.is_over:
                    raise failure("boot", call.host_name, error) from error
            except CallRefused as error:
                if error.code not in TRANSIENT or call.is_over:
                    raise failure("boot", call.host_name, error) from error
            time.sleep(pause)
            pause = min(pause * 2, 10.0)

    def _parameters(self, *, starts: bool) -> dict[str, str]:
        """Return the parameters of the upstream ``deployVirtualMachine`` call."""
        guest, order = self._guest, self._order
        parameters = {
            "customid": self._call.vm_id,
            "customjobid": job_id_of(self._call.vm_id),
            "zoneid": str(order.zone_uuid),
            "serviceofferingid": str(order.offering_uuid),
            "templateid": str(order.template_uuid),
            "hypervisor": order.hypervisor,
            "hostid": self._host_id,
            "name": guest.host_name or guest.name,
            "displayname": order.display_name or guest.host_name or guest.name,
            **owner_of(order),
            **custom_sizes(guest, order),
        }
        if not starts:
            parameters["startvm"] = "false"
        root = guest.volumes[0]
        if root.size_bytes != order.root_bytes:
            parameters["rootdisksize"] = str(-(-root.size_bytes // GIB))
        for at, nic in enumerate(guest.nics):
            parameters[f"iptonetworklist[{at}].networkid"] = str(nic.network_uuid)
            for name, value in requested_addresses(nic).items():
                parameters[f"iptonetworklist[{at}].{name}"] = value
        lists = {
            "affinitygroupids": list(map(str, order.affinity_group_uuids)),
            "securitygroupids": list(map(str, order.security_group_uuids)),
            "keypairs": sorted(order.key_pairs),
        }
        parameters |= {name: ",".join(values) for name, values in lists.items() if values}
        if guest.user_data is not None:
            parameters["userdata"] = guest.user_data
            for at, (name, value) in enumerate(sorted(guest.user_data_details.items())):
                parameters[f"userdatadetails[{at}].{name}"] = value
        if guest.password is not None:
            parameters["password"] = guest.password
        return parameters


def _names(row: Row) -> list[str]:
    """Return the names of a VM's key pairs."""
    return [name.strip() for name in str(row.get("keypairs") or "").split(",") if name.strip()]
