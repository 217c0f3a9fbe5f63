"""The resource usage of hosts and guests, as a hypervisor measured it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from uuid import UUID


class UsagePeriod(StrEnum):
    """The time span of a usage graph."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"


SHORT_INTERVAL_S, LONG_INTERVAL_S = 300, 3600
KEPT_INTERVALS: Mapping[int, timedelta] = MappingProxyType(
    {SHORT_INTERVAL_S: timedelta(days=1, hours=1), LONG_INTERVAL_S: timedelta(days=8)}
)
"""How long the usage of hosts is kept, by the length of the intervals (seconds) over which it is summed."""
PERIODS: Mapping[UsagePeriod, tuple[timedelta, int]] = MappingProxyType(
    {
        UsagePeriod.HOUR: (timedelta(hours=1), SHORT_INTERVAL_S),
        UsagePeriod.DAY: (timedelta(days=1), SHORT_INTERVAL_S),
        UsagePeriod.WEEK: (timedelta(days=7), LONG_INTERVAL_S),
    }
)
"""The length of each period, and the length of its intervals in seconds, of hosts."""
GUEST_INTERVAL_S, GUEST_INTERVALS_KEPT = 1800, timedelta(days=8)
"""The interval over which the usage of guests is summed, seconds, and how long it is kept."""


@dataclass(frozen=True, slots=True)
class GuestUsage:
    """The resource usage of a running guest since it started on its host.

    Attributes:
        uuid: the guest.
        cpu_ns: the CPU time of all its cores in nanoseconds.
        memory_kib: the present memory of the guest in KiB.
        unused_kib: the part of this memory that the guest does not use, in KiB, or None if the guest does not
            report it.
        received_bytes, sent_bytes: the network traffic over all its NICs.
        read_bytes, written_bytes: the disk traffic over all its volumes.
        reads, writes: the numbers of requests to all its volumes.
    """

    uuid: UUID
    cpu_ns: int
    memory_kib: int
    unused_kib: int | None
    received_bytes: int
    sent_bytes: int
    read_bytes: int
    written_bytes: int
    reads: int
    writes: int


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """The used bytes of a storage pool, including use by others, and its size, as its hypervisor measured them."""

    used_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class HostUsage:
    """The resource usage of a host, with its guests.

    Attributes:
        uuid: the host.
        busy_ns, total_ns: the busy time and the total time of its cores since it was booted, in nanoseconds.
        memory_used_kib: the memory in use now in KiB, without buffers and caches of files.
        guests: its running guests.
        pools: the usage of the storage pools that it can access, by uuid of the pool.
    """

    uuid: UUID
    busy_ns: int
    total_ns: int
    memory_used_kib: int
    guests: Sequence[GuestUsage]
    pools: Mapping[UUID, PoolUsage] = field(default_factory=dict)
