"""The state of deploy calls during the stages of a deployment: the VMs that are created or left out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bulkdeploy.domain.accounts.accounts import Owner
from bulkdeploy.domain.deployments.deployment import DeployCall, DeploySpec, NamedVm
from bulkdeploy.domain.errors import (
    BulkDeployError,
    InsufficientAddresses,
    InsufficientCapacity,
    ResourceLimitExceeded,
)
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.placement.model import Flags, Ints
from bulkdeploy.scheduling.place import Planned
from bulkdeploy.store.database.shared_transaction import MustRunAlone
from bulkdeploy.store.deployments.new_vms import CallPart, NewVms

ERROR_CODES: dict[type[BulkDeployError], int] = {
    InsufficientCapacity: 533,
    InsufficientAddresses: 533,
    ResourceLimitExceeded: 535,
}
"""The status of each VM that a partial call leaves out: the one that the whole call would be refused with."""


class FewerVms(Exception):
    """Raised when some VMs of a partial deployment cannot get an address.

    The caller repeats the deployment without them.
    """

    def __init__(self, vms: Ints, error: InsufficientAddresses) -> None:
        super().__init__(str(error))
        self.vms, self.error = vms, error


class Refusals:
    """The rejected calls of a transaction, with their errors.

    The error of a call that is alone is raised immediately.
    """

    def __init__(self, calls: int) -> None:
        self._calls, self._refused = calls, set[int]()

    @contextmanager
    def of(self, number: int) -> Iterator[None]:
        """Record an error that is raised inside the block as the error of the call with this number."""
        try:
            yield
        except BulkDeployError:
            if self._calls == 1:
                raise
            self._refused.add(number)

    def check(self) -> None:
        """Raise an error if any call was rejected.

        Raises:
            MustRunAlone: the rejected calls cannot share the transaction.
        """
        if self._refused:
            raise MustRunAlone(self._refused)


@dataclass(slots=True, eq=False, kw_only=True)
class DeployingCall(NewVms):
    """A deploy call while it is executed, with its VMs and their plan.

    Attributes:
        named: the names that the call requests, by VM number; empty if it requests none.
        kept: by VM number, False for each VM that is left out.
        errors: the reason of each VM of a list that is left out, by VM number.
        planned: the plan of each kind of VM, or None if the VMs must not be started.
    """

    named: Sequence[NamedVm]
    kept: Flags
    errors: dict[int, BulkDeployError] = field(default_factory=dict)
    planned: Sequence[Planned] | None = None

    @classmethod
    def of(cls, call: DeployCall, specs: Sequence[DeploySpec]) -> "DeployingCall":
        """Return the deploying call with one part per request. VMs are numbered in the order of their entries."""
        vms = [vm for request in call.requests for vm in request.vms]
        entries = np.array([vm.entry for vm in vms] or [0] * call.count, dtype=np.int64)
        order = np.argsort(entries, kind="stable")
        numbers = np.empty_like(order)
        numbers[order] = np.arange(len(order))
        ends = np.cumsum([request.count for request in call.requests])
        parts = [
            CallPart(spec, of_part, spec.request.vms)
            for spec, of_part in zip(specs, np.split(numbers, ends[:-1]), strict=True)
        ]
        named = [vms[at] for at in order.tolist()] if vms else ()
        return cls(call=call, parts=parts, named=named, kept=np.ones(call.count, dtype=bool))

    @property
    def owner(self) -> Owner:
        """The owner of all VMs of the call."""
        return self.parts[0].spec.owner

    def leave_out(self, vms: Ints, error: BulkDeployError | None) -> None:
        """Leave out the VMs with these numbers. ``error`` is the reason that a call with a list returns."""
        self.kept[vms] = False
        if error is not None and self.call.listed:
            self.errors |= dict.fromkeys(vms.tolist(), error)

    def drop_left_out(self) -> None:
        """Remove the VMs that were left out from the parts, and parts without VMs."""
        for part in self.parts:
            part.keep(self.kept)
        self.parts = [part for part in self.parts if part.count]

    def amounts(self, most: int | None = None) -> ResourceAmounts:
        """Return the total of limited resources that the kept VMs use.

        If ``most`` is given, only VMs with a number below ``most`` are counted.
        """
        total = ResourceAmounts()
        for part in self.parts:
            kept = self.kept[part.numbers] & (part.numbers < (self.call.count if most is None else most))
            total = total.plus(part.spec.per_vm.times(int(kept.sum())))
        return total

    def failures(self) -> Iterator[dict[str, Any]]:
        """Yield the response rows of the VMs that were left out, in the order of the call."""
        for number in sorted(self.errors):
            vm, error = self.named[number], self.errors[number]
            yield {
                "index": vm.entry,
                "name": vm.name,
                "errorcode": ERROR_CODES[type(error)],
                "errortext": str(error),
            }
