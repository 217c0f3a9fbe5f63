"""The VMs of a deploy call before they are written: all VMs, and parts with the same configuration."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
from sqlalchemy import Connection

from bulkdeploy.domain.deployments.deployment import DeployCall, DeploySpec, NamedVm
from bulkdeploy.placement.model import Flags, Ints, Plan
from bulkdeploy.store.database.copying import reserve_numbers
from bulkdeploy.store.ledger.addresses import Address
from bulkdeploy.store.tables.jobs import async_jobs
from bulkdeploy.store.tables.virtual_machines import virtual_machines


@dataclass(slots=True, eq=False)
class CallPart:
    """The VMs of one request of a call. Each stage of a deployment adds the values that it determines.

    Columns (``ids``, ``uuids``, ``names`` and so on) have one entry per VM, in the order of ``numbers``.

    Attributes:
        spec: the properties that all of these VMs share.
        numbers: the position of each VM in the call, from 0, in ascending order.
        named: the names that the call requests for the VMs; empty if it requests none.
        plan: the host and the pools of each VM, or None if the VMs must not be started.
        volume_uuids: a column for each disk.
        addresses: a column for each network; None for a network without addresses.
        passwords_encrypted: the password of each guest, or None if the guests have no passwords.
        record: more columns of the part's row in ``deployments``.
    """

    spec: DeploySpec
    numbers: Ints
    named: Sequence[NamedVm]
    plan: Plan | None = None
    ids: Sequence[int] = ()
    uuids: Sequence[str] = ()
    volume_uuids: Sequence[Sequence[str]] = ()
    names: Sequence[str] = ()
    display_names: Sequence[str] = ()
    instance_names: Sequence[str] = ()
    addresses: Sequence[Sequence[Address] | None] = ()
    passwords_encrypted: Sequence[bytes] | None = None
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of VMs in this part."""
        return len(self.numbers)

    def keep(self, kept: Flags) -> None:
        """Remove the VMs that ``kept`` does not mark. ``kept`` has one flag for each position in the call."""
        is_kept = kept[self.numbers]
        if not is_kept.all():
            self.named = [self.named[at] for at in is_kept.nonzero()[0].tolist()] if self.named else ()
            self.numbers = self.numbers[is_kept]


@dataclass(slots=True, eq=False)
class NewVms:
    """The VMs that a call creates. Columns have one entry per VM, in the call's order."""

    call: DeployCall
    parts: list[CallPart]
    ids: list[int] = field(default_factory=list)
    uuids: list[str] = field(default_factory=list)
    job_ids: list[int] = field(default_factory=list)
    job_uuids: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of VMs in all parts."""
        return sum(part.count for part in self.parts)

    def positions(self) -> list[list[int]]:
        """Return, for each part, the positions of its VMs in the columns of ``NewVms``."""
        order = np.sort(np.concatenate([part.numbers for part in self.parts]))
        return [np.searchsorted(order, part.numbers).tolist() for part in self.parts]


def reserve_identities(connection: Connection, calls: Sequence[NewVms]) -> None:
    """Assign new ids, or the ids that the call chose, to all VMs, their jobs and their volumes."""
    counts = [call.count for call in calls]
    ids, job_ids = reserve_numbers(connection, [(virtual_machines, sum(counts)), (async_jobs, sum(counts))])
    for call, count, end in zip(calls, counts, accumulate(counts), strict=True):
        call.ids, call.job_ids = ids[end - count : end], job_ids[end - count : end]
        call.uuids, call.job_uuids = random_uuids(count), random_uuids(count)
        for part, positions in zip(call.parts, call.positions(), strict=True):
            for at, vm in zip(positions, part.named, strict=False):  # most bulk calls name no VMs
                call.uuids[at] = vm.uuid or call.uuids[at]
                call.job_uuids[at] = vm.job_uuid or call.job_uuids[at]
            part.ids = [call.ids[at] for at in positions]
            part.uuids = [call.uuids[at] for at in positions]
            part.volume_uuids = [random_uuids(part.count) for _ in part.spec.disks]


def random_uuids(count: int) -> list[str]:
    """Return version 4 uuids as text. All of their random bytes are read with one system call."""
    noise = bytearray(os.urandom(16 * count))
    for at in range(0, 16 * count, 16):
        noise[at + 6] = (noise[at + 6] & 0x0F) | 0x40
        noise[at + 8] = (noise[at + 8] & 0x3F) | 0x80
    digits = noise.hex()
    return [
        f"{digits[at : at + 8]}-{digits[at + 8 : at + 12]}-{digits[at + 12 : at + 16]}"
        f"-{digits[at + 16 : at + 20]}-{digits[at + 20 : at + 32]}"
        for at in range(0, 32 * count, 32)
    ]
