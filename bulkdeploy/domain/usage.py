"""What hosts and guests have used, as a hypervisor measured it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True)
class GuestUsage:
    """What a running guest has used since it was started on its host.

    Attributes:
        uuid: the guest.
        cpu_ns: nanoseconds of CPU, over all its cores.
        memory_kib: memory that the guest has now, KiB.
        unused_kib: the part of this memory that the guest does not use, KiB; None if the guest does not report it.
        received_bytes, sent_bytes: network traffic over all its nics.
        read_bytes, written_bytes: disk traffic over all its volumes.
        reads, writes: requests to all its volumes.
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
class HostUsage:
    """What a host has used, with its guests.

    Attributes:
        uuid: the host.
        busy_ns, total_ns: nanoseconds that its cores worked, and that they could have worked, since it was booted.
        memory_used_kib: memory in use now, KiB; buffers and caches of files do not count.
        guests: its running guests.
        pools: used bytes of the storage pools that it reaches, by uuid of the pool.
    """

    uuid: UUID
    busy_ns: int
    total_ns: int
    memory_used_kib: int
    guests: Sequence[GuestUsage]
    pools: Mapping[UUID, int] = field(default_factory=dict)
