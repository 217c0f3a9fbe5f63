"""The records that the service keeps for drivers: hosts, pools, fences and more (one file: one protocol a subject).

A driver is given them once, before its first call (``HypervisorDriver.use_records``). They are read and written in
transactions of their own, so that what stands there outlives its writer. Safe to share between threads.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar
from uuid import UUID

from bulkdeploy.domain.networks.addresses import GivenNic
from bulkdeploy.domain.networks.security_group_rules import Rule
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.security.guarded_fetch import Fetcher

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pool:
    """A primary storage pool, with its type as CloudStack names it.

    ``host_uuid`` is set if the pool consists of the disks of one host. ``size_bytes`` is 0 if the size is not
    known. ``user`` and ``secret`` are the credentials of a Ceph pool. ``read_secret`` decrypts the secret when a
    driver needs it, so that one secret that cannot be decrypted affects no other pool.
    """

    uuid: UUID
    name: str
    pool_type: str
    server: str | None
    path: str | None
    host_uuid: UUID | None
    size_bytes: int = 0
    user: str | None = None
    read_secret: Callable[[], str] | None = field(default=None, repr=False, compare=False)

    @property
    def secret(self) -> str | None:
        """The decrypted secret, or None if the pool has no secret.

        Raises:
            DriverError: the secret cannot be decrypted.
        """
        return None if self.read_secret is None else self.read_secret()


@dataclass(frozen=True, slots=True)
class TemplateImage:
    """The image of a template: its URL, format (QCOW2, RAW, ...), checksum (``{SHA-256}...``) and size in bytes.

    ``is_of_root_admin`` means that an account of a root admin owns the template.
    """

    uuid: UUID
    name: str
    url: str | None
    image_format: str
    checksum: str | None
    size_bytes: int
    is_of_root_admin: bool = False

    @property
    def key(self) -> str:
        """The name of copies of the image: the template's uuid, and a digest of its checksum if it has one."""
        if not self.checksum:
            return str(self.uuid)
        return f"{self.uuid}-{hashlib.sha256(self.checksum.lower().encode()).hexdigest()[:12]}"

    def named_in(self, options: Mapping[str, T]) -> T | None:
        """Return the value of a driver's option for this template, or None if no option names it.

        An option names a template by its uuid. A template of a root admin can also be named by its name. Other
        names are ignored, because any user can give any name to a template.
        """
        found = options.get(str(self.uuid))
        return options.get(self.name) if found is None and self.is_of_root_admin else found


class Directory(Protocol):
    """The hosts of a driver's hypervisor types, their pools and templates, as rows have them now; read-only."""

    def hosts(self) -> Sequence[HostAddress]:
        """Return every host."""

    def hosts_of_pool(self, pool_uuid: UUID) -> Sequence[HostAddress]:
        """Return every host that reaches a pool."""

    def pools(self) -> Sequence[Pool]:
        """Return every pool that a host reaches."""

    def pools_of_host(self, host_uuid: UUID) -> Sequence[Pool]:
        """Return every pool that this host reaches."""

    def pools_of_volumes(self, volume_uuids: Collection[UUID]) -> Sequence[Pool]:
        """Return the pools in which these volumes are or will be.

        A removed volume is in its pool until its data is deleted.
        """

    def hardware_of_cluster(self, host_uuid: UUID) -> frozenset[str | None]:
        """Return the distinct values of ``HostModel.guest_hardware`` of the hosts in this host's cluster.

        The set contains None if the hardware of some hosts has not been read.
        """

    def template(self, template_uuid: UUID) -> TemplateImage | None:
        """Return the image of a template, or None if the template does not exist."""

    def caller(self, user_id: int) -> Mapping[str, str]:
        """Return a user's account and role in the words of CloudStack's extensions; empty for an unknown user."""

    def closed_hosts(self) -> Sequence[HostAddress]:
        """Return hosts that take no new guests: they are not Up, or not Enabled (in maintenance, for example)."""


class Overtaken(Exception):
    """A higher fence of the guest was seen."""

    def __init__(self, guest_uuid: UUID, fence: int) -> None:
        self.guest_uuid, self.fence = guest_uuid, fence
        super().__init__(f"fence {fence} of guest {guest_uuid} was overtaken")


class HostDeclaredOffError(Exception):
    """A guest cannot be claimed for a host that was declared off and not taken back since."""

    def __init__(self, host_uuid: UUID) -> None:
        self.host_uuid = host_uuid
        super().__init__("the host was declared off; reconnectHost takes it back")


@dataclass(frozen=True, slots=True)
class FencedGuest:
    """The record of a guest: its host, the destination of its migration, and the details that its driver stores."""

    host_uuid: UUID | None = None
    destination_uuid: UUID | None = None
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def host_uuids(self) -> frozenset[UUID]:
        """Every host that may have it."""
        return frozenset({self.host_uuid, self.destination_uuid} - {None})  # type: ignore[arg-type]


class Fences(Protocol):
    """The highest fence that was used for each guest, and the only host that may have the guest (docs/adr/0024).

    The recorded host, migration destination and volumes of a guest stay recorded until ``release``.
    """

    def raise_fence(self, guest_uuid: UUID, fence: int) -> FencedGuest:
        """Record this fence as the guest's highest, and return the guest's record.

        From then on calls with lower fences fail.

        Raises:
            Overtaken: a higher one was seen.
        """

    def claim(
        self, guest_uuid: UUID, host_uuid: UUID, volume_uuids: Collection[UUID], fence: int
    ) -> tuple[FencedGuest, frozenset[UUID]]:
        """Raise the fence, and claim this host and these volumes for a guest that is on no host.

        Returns:
            Where the guest is now, and those volumes that other guests hold: then nothing was claimed.

        Raises:
            Overtaken: a higher fence was seen.
            HostDeclaredOffError: the host was declared off; nothing was claimed.
        """

    def highest(self, guest_uuid: UUID) -> int:
        """Return the highest fence seen for a guest, or 0 if none was seen."""

    def is_highest(self, guest_uuid: UUID, fence: int) -> bool:
        """Return whether no higher fence was seen."""

    def move(self, guest_uuid: UUID, host_uuid: UUID, destination_uuid: UUID | None, fence: int) -> None:
        """Note that the guest is on this host, and moves to that one, or nowhere.

        Raises:
            Overtaken: a higher fence was seen.
        """

    def keep(self, guest_uuid: UUID, details: Mapping[str, Any], fence: int) -> None:
        """Replace the recorded details of a guest, which are JSON.

        ``release`` does not delete the details. An empty mapping deletes them.

        Raises:
            Overtaken: a higher fence was seen.
        """

    def kept(self) -> Mapping[UUID, FencedGuest]:
        """Return the guests of which details are kept."""

    def guests_with(self, details: Mapping[str, Any]) -> Mapping[UUID, FencedGuest]:
        """Return the guests whose recorded details contain ``details``.

        Containment is defined as for JSON in PostgreSQL.
        """

    def release(self, guest_uuid: UUID, fence: int) -> None:
        """Record that the guest is on no host and has no volumes. Nothing changes if a higher fence was used."""

    def volumes_in_use(self, volume_uuids: Collection[UUID]) -> AbstractContextManager[dict[UUID, UUID]]:
        """Yield those of these volumes that guests have, with their guests.

        Within the context no guest can claim one of the other volumes.
        """


class CopyState(StrEnum):
    """The state of a template's copy in a pool."""

    READY = "ready"
    TO_MAKE = "to make"
    UNDER_WAY = "under way"


@dataclass(frozen=True, slots=True)
class TemplateCopy:
    """The copy of a template in a pool: the number of the attempt, its state, and its progress in percent.

    ``abandoned`` are earlier attempts that may have left an incomplete file.
    """

    attempt: int
    state: CopyState
    percent: int
    abandoned: Sequence[int] = ()


class TemplateCopies(Protocol):
    """The copies of templates in pools.

    One caller at a time makes a copy; a caller that is silent for a minute counts as dead.

    A copy is one of the template and the checksum that it had: with another checksum it is another image.
    """

    def find(self, template_uuid: UUID, pool_uuid: UUID, checksum: str | None = None) -> int | None:
        """Return the number of the attempt that completed the copy, or None if there is no complete copy."""

    def begin(self, template_uuid: UUID, pool_uuid: UUID, checksum: str | None = None) -> TemplateCopy:
        """Return the copy of a template in a pool, and begin an attempt if there is no copy.

        The state is READY if the copy is complete, TO_MAKE if the caller must make it under this attempt, and
        UNDER_WAY if another caller is making it.
        """

    def admit(self, template_uuid: UUID, pool_uuid: UUID, file_bytes: int, disk_bytes: int) -> str | None:
        """Count the file of a copy that was begun, before it is put into the pool.

        Returns why the file must not be put there: a limit of the template's owner, or no room in the pool. Returns
        None if it may. An attempt that ends without a copy is not counted any more.
        """

    def report(self, template_uuid: UUID, pool_uuid: UUID, attempt: int, percent: int) -> bool:
        """Report the progress of an attempt. Return False if another one has taken over."""

    def end(self, template_uuid: UUID, pool_uuid: UUID, attempt: int, *, made: bool) -> bool:
        """End an attempt. Return False if another one has taken over."""


@dataclass(frozen=True, slots=True)
class GuestOrder:
    """The parameters of a VM's deploy call by uuid, for a cloud that is driven by such calls and has the same ids.

    Attributes:
        custom_sizes: which sizes the offering leaves to the deploy call, of cpuNumber, cpuSpeed and memory.
        root_bytes: the size that a root disk of template and offering has unless another is requested.
        owner, domain_uuid, project_uuid: the account, or the project, that owns it.
        key_pairs: public keys by the names of the owner's key pairs.
        disk_offerings: of its data volumes, by their uuids.
        affinity_group_uuids: its affinity groups that came with the cloud; the cloud does not know others.
        custom_disks: uuids of the data volumes whose offering leaves the size to the call that creates them.
    """

    zone_uuid: UUID
    offering_uuid: UUID
    custom_sizes: frozenset[str]
    template_uuid: UUID
    hypervisor: str
    root_bytes: int
    owner: str
    domain_uuid: UUID
    project_uuid: UUID | None = None
    display_name: str | None = None
    security_group_uuids: tuple[UUID, ...] = ()
    key_pairs: Mapping[str, str] = field(default_factory=dict)
    disk_offerings: Mapping[UUID, UUID] = field(default_factory=dict)
    custom_disks: Collection[UUID] = frozenset()
    affinity_group_uuids: tuple[UUID, ...] = ()


class Orders(Protocol):
    """The orders of VMs, and the VMs and volumes that exist or existed; read-only."""

    def order(self, guest_uuid: UUID) -> GuestOrder | None:
        """Return the order of a VM, or None if there is no such VM."""

    def known_guests(self, guest_uuids: Collection[UUID]) -> frozenset[UUID]:
        """Return the uuids that are, or were, VMs of the service."""

    def known_volumes(self, volume_uuids: Collection[UUID]) -> frozenset[UUID]:
        """Return the uuids that are, or were, volumes of the service."""


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The record of the calls that created a VM or a volume in another cloud.

    ``attempt`` is the attempt that determined the id in the cloud. ``root_uuid`` is the root volume of a VM, whose
    id the cloud chose; it is None if the cloud was not called under the id of this attempt.
    """

    attempt: int
    root_uuid: UUID | None


class Counterparts(Protocol):
    """The VMs and volumes that another cloud creates under ids that can be used only once (docs/adr/0036)."""

    def find(self, uuid: UUID) -> Counterpart | None:
        """Return the note, or None if there never was one."""

    def note(self, uuid: UUID, root_uuid: UUID | None = None) -> Counterpart:
        """Note, before the cloud gets the order, that it is about to."""

    def spend(self, uuid: UUID, attempt: int) -> None:
        """Note that the id of this attempt is used up. The next attempt counts, unless it does already."""

    def write_addresses(self, uuid: UUID, nics: Sequence[GivenNic]) -> None:
        """Write the addresses that the cloud assigned to the NICs of a VM into the rows of these NICs.

        If a NIC of another VM has one of the addresses, that NIC loses the address, because the cloud decides.
        """

    def guest_of_root(self, root_uuid: UUID) -> UUID | None:
        """Return the VM that is recorded with this root volume, or None if no VM is recorded with it."""

    def all(self) -> Mapping[UUID, Counterpart]:
        """Return all records by the uuids of the service."""


class ClusterTurns(Protocol):
    """Locks of hypervisors' clusters: over all processes one caller at a time decides about a cluster."""

    def turn(self, cluster: str, *, timeout_s: float) -> AbstractContextManager[None]:
        """Wait until no other caller is in this context for the same cluster, and keep others out until the end.

        After TURN_SECONDS, other callers may enter. The context also ends if the process dies.

        Raises:
            TimeoutError: others took longer than ``timeout_s``.
        """


TURN_SECONDS = 60.0
"""PostgreSQL ends a session whose transaction has been idle for so long."""


class SecurityRules(Protocol):
    """The rules of VMs' security groups, as rows have them now; read-only."""

    def of(self, guest_uuids: Collection[UUID]) -> Mapping[UUID, frozenset[Rule]]:
        """Return the rules of these VMs, with the addresses of peer groups.

        VMs without security groups are omitted.

        Incoming packets are dropped unless a rule accepts them. Outgoing packets are dropped if there are egress
        rules and none of them accepts the packet. Replies to accepted packets pass.
        """


@dataclass(frozen=True, slots=True)
class Records:
    """Everything that is remembered for one driver."""

    directory: Directory
    fences: Fences
    copies: TemplateCopies
    orders: Orders
    counterparts: Counterparts
    security_rules: SecurityRules
    clusters: ClusterTurns
    fetcher: Fetcher


MakeRecords = Callable[[Callable[[str], bool]], Records]
"""Records of a driver, given which hypervisor types it serves."""
