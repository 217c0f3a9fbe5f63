"""The VMs of a deploy call on their way: numbered in the call's order, part by part, kept or left out with why.

A *part* is what one request of the call asks for: VMs that are configured alike. A *kind* is what one placement
need covers: parts whose VMs differ in addresses or user data only are placed as one kind.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bulkdeploy.domain.deployment import DeployBatch, DeploySpec, NamedVm
from bulkdeploy.domain.errors import (
    BulkDeployError,
    InsufficientAddresses,
    InsufficientCapacity,
    ResourceLimitExceeded,
)
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.placement.model import Flags, Ints, Plan
from bulkdeploy.scheduling.need import PlacementNeed
from bulkdeploy.scheduling.place import Planned

ERROR_CODES: dict[type[BulkDeployError], int] = {
    InsufficientCapacity: 533,
    InsufficientAddresses: 533,
    ResourceLimitExceeded: 535,
}
"""Of VMs that a partial call leaves out: the status that the whole call would have been refused with."""


@dataclass(frozen=True, slots=True)
class Kind:
    """VMs of one placement need: their numbers, ascending."""

    need: PlacementNeed
    vms: Ints


@dataclass(frozen=True, slots=True)
class Part:
    """The VMs of one request that are made.

    ``at``: their positions among all that are made; ``named``: what they are to be called, one by one; ``plan``:
    their places, None where they are not started.
    """

    spec: DeploySpec
    need: PlacementNeed
    at: Ints
    named: Sequence[NamedVm]
    plan: Plan | None

    @property
    def count(self) -> int:
        """How many VMs."""
        return len(self.at)


@dataclass(slots=True)
class Wanted:
    """All VMs that a call asks for. ``kept``: those not left out; ``why``: of each that is left out, the error."""

    batch: DeployBatch
    specs: Sequence[DeploySpec]
    needs: Sequence[PlacementNeed]
    numbers: Sequence[Ints]
    kept: Flags
    why: dict[int, BulkDeployError] = field(default_factory=dict)

    @classmethod
    def of(cls, batch: DeployBatch, specs: Sequence[DeploySpec], needs: Sequence[PlacementNeed]) -> "Wanted":
        """All of them, numbered in the order of their entries."""
        if len(specs) == 1:
            numbers = [np.arange(batch.count, dtype=np.int64)]
        else:
            entries = np.array([vm.entry for spec in specs for vm in spec.request.vms], dtype=np.int64)
            number = np.empty_like(entries)
            number[np.argsort(entries, kind="stable")] = np.arange(len(entries), dtype=np.int64)
            numbers = np.split(number, np.cumsum([spec.request.count for spec in specs])[:-1])
        return cls(batch, specs, needs, numbers, np.ones(batch.count, dtype=bool))

    def leave_out(self, vms: Ints, error: BulkDeployError | None) -> None:
        """These are not made; ``error`` says why, for a list."""
        self.kept[vms] = False
        if error is not None and self.batch.listed:
            self.why |= dict.fromkeys(vms.tolist(), error)

    def amounts(self, most: int | None = None) -> ResourceAmounts:
        """What the kept VMs take of limited resources; ``most``: only those with numbers below it."""
        total = ResourceAmounts()
        for spec, numbers in zip(self.specs, self.numbers, strict=True):
            kept = self.kept[numbers] if most is None else self.kept[numbers] & (numbers < most)
            total = total.plus(spec.per_vm.times(int(kept.sum())))
        return total

    def kinds(self) -> list[Kind]:
        """The kept VMs by placement need, in the order of the requests."""
        found: dict[PlacementNeed, list[Ints]] = {}
        for need, numbers in zip(self.needs, self.numbers, strict=True):
            found.setdefault(need, []).append(numbers[self.kept[numbers]])
        return [Kind(need, np.sort(np.concatenate(vms))) for need, vms in found.items()]

    def parts(self, kinds: Sequence[Kind], planned: Sequence[Planned] | None) -> list[Part]:
        """What is made of each request, places included; requests of which nothing is made are left out."""
        position = np.cumsum(self.kept) - 1
        row, plans = np.zeros(len(self.kept), dtype=np.int64), {}
        for number, kind in enumerate(kinds):
            row[kind.vms] = np.arange(len(kind.vms), dtype=np.int64)
            plans[kind.need] = None if planned is None else planned[number].plan
        parts = []
        for spec, need, numbers in zip(self.specs, self.needs, self.numbers, strict=True):
            made = np.flatnonzero(self.kept[numbers])
            if not len(made):
                continue
            plan, vms = plans[need], spec.request.vms
            if plan is not None and len(made) != plan.placed:
                plan = plan.of(row[numbers[made]])
            named = [vms[at] for at in made.tolist()] if vms else ()
            parts.append(Part(spec, need, position[numbers[made]], named, plan))
        return parts

    def vm(self, number: int) -> NamedVm:
        """What a VM is to be called, and its entry."""
        for spec, numbers in zip(self.specs, self.numbers, strict=True):
            (at,) = np.nonzero(numbers == number)
            if len(at):
                return spec.request.vms[int(at[0])]
        raise KeyError(number)

    def failures(self) -> Iterator[dict[str, Any]]:
        """What is answered of VMs that are left out, in the call's order."""
        for number in sorted(self.why):
            vm, error = self.vm(number), self.why[number]
            yield {
                "index": vm.entry,
                "name": vm.name,
                "errorcode": ERROR_CODES[type(error)],
                "errortext": str(error),
            }
