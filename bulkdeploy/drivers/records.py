"""Records that the service stores for drivers: hosts, pools and fences (one file: one protocol a subject).

A driver receives the records once, before its first call (``HypervisorDriver.use_records``). Each method reads or
writes in a transaction of its own, so its result is committed even if the caller fails. Threads may share the
records.
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
        """The name of copies of the image: the template's uuid and, if it has a checksum, a digest of that."""
        if not self.checksum:
            return str(self.uuid)
        return f"{self.uuid}-{hashlib.sha256(self.checksum.lower().encode()).hexdigest()[:12]}"

    def named_in(self, options: Mapping[str, T]) -> T | None:
        """Return the value of a driver's option for this template, or None if no option names the template.

        ``options`` maps names of templates to values. An option names a template by its uuid. A template of a root
        admin can also be named by its name. Other names are ignored, because any user can give any name to a
        template.
        """
        found = options.get(str(self.uuid))
        return options.get(self.name) if found is None and self.is_of_root_admin else found


class Directory(Protocol):
    """Read-only access to the current hosts of a driver's hypervisor types, and to their pools and templates."""

    def hosts(self) -> Sequence[HostAddress]:
        """Return all hosts of the driver's hypervisor types."""

    def hosts_of_pool(self, pool_uuid: UUID) -> Sequence[HostAddress]:
        """Return all hosts that can access a pool."""

    def pools(self) -> Sequence[Pool]:
        """Return all pools that at least one host can access."""

    def pools_of_host(self, host_uuid: UUID) -> Sequence[Pool]:
        """Return all pools that this host can access."""

    def pools_of_volumes(self, volume_uuids: Collection[UUID]) -> Sequence[Pool]:
        """Return the pools that contain, or will contain, these volumes.

        The pool of a removed volume is returned until the volume's data is deleted.
        """

    def hardware_of_cluster(self, host_uuid: UUID) -> frozenset[str | None]:
        """Return the distinct values of ``HostModel.guest_hardware`` of the hosts in this host's cluster.

        The set contains None if the hardware of some hosts has not been read.
        """

    def template(self, template_uuid: UUID) -> TemplateImage | None:
        """Return the image of a template, or None if the template does not exist."""

    def caller(self, user_id: int) -> Mapping[str, str]:
        """Return the account and role of a user under the names of CloudStack's Extension protocol.

        The result is empty for an unknown user.
        """

    def closed_hosts(self) -> Sequence[HostAddress]:
        """Return the hosts that accept no new guests: hosts that are not Up or not Enabled.

        A host in maintenance, for example, is not Enabled.
        """


class Overtaken(Exception):
    """Raised if a call with a higher fence was already recorded for the guest."""

    def __init__(self, guest_uuid: UUID, fence: int) -> None:
        self.guest_uuid, self.fence = guest_uuid, fence
        super().__init__(f"fence {fence} of guest {guest_uuid} was overtaken")


class HostDeclaredOffError(Exception):
    """Raised if a guest is claimed for a host that was declared off and not reconnected since."""

    def __init__(self, host_uuid: UUID) -> None:
        self.host_uuid = host_uuid
        super().__init__("the host was declared off; reconnectHost makes it available again")


@dataclass(frozen=True, slots=True)
class FencedGuest:
    """The record of a guest: its host, the destination of its migration, and the details that its driver stores."""

    host_uuid: UUID | None = None
    destination_uuid: UUID | None = None
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def host_uuids(self) -> frozenset[UUID]:
        """The hosts that may have the guest: its host and the destination of its migration."""
        return frozenset({self.host_uuid, self.destination_uuid} - {None})  # type: ignore[arg-type]


class Fences(Protocol):
    """The highest fence that was used for each guest, and the only host that may have the guest (docs/adr/0024).

    The recorded host, migration destination and volumes of a guest stay recorded until ``release``.
    """

    def raise_fence(self, guest_uuid: UUID, fence: int) -> FencedGuest:
        """Record this fence as the guest's highest, and return the guest's record.

        From then on calls with lower fences fail.

        Raises:
            Overtaken: a higher fence was already recorded.
        """

    def claim(
        self, guest_uuid: UUID, host_uuid: UUID, volume_uuids: Collection[UUID], fence: int
    ) -> tuple[FencedGuest, frozenset[UUID]]:
        """Raise the guest's fence, and claim this host and these volumes if the guest is on no host.

        If the guest is on a host already, or if other guests have some of the volumes, nothing is claimed.

        Returns:
            The guest's record after the call, and the volumes in ``volume_uuids`` that other guests have.

        Raises:
            Overtaken: a higher fence was already recorded.
            HostDeclaredOffError: the host was declared off; nothing was claimed.
        """

    def highest(self, guest_uuid: UUID) -> int:
        """Return the highest fence that was recorded for a guest, or 0 if none was recorded."""

    def is_highest(self, guest_uuid: UUID, fence: int) -> bool:
        """Return True if no fence above ``fence`` was recorded for the guest."""

    def move(self, guest_uuid: UUID, host_uuid: UUID, destination_uuid: UUID | None, fence: int) -> None:
        """Record that the guest is on ``host_uuid`` and migrates to ``destination_uuid``.

        If ``destination_uuid`` is None, the guest does not migrate.

        Raises:
            Overtaken: a higher fence was already recorded.
        """

    def store_details(self, guest_uuid: UUID, details: Mapping[str, Any], fence: int) -> None:
        """Replace the recorded details of a guest, which are JSON.

        ``release`` does not delete the details. An empty mapping deletes them.

        Raises:
            Overtaken: a higher fence was already recorded.
        """

    def guests_with_details(self) -> Mapping[UUID, FencedGuest]:
        """Return the records of all guests with recorded details."""

    def guests_with(self, details: Mapping[str, Any]) -> Mapping[UUID, FencedGuest]:
        """Return the guests whose recorded details contain ``details``.

        Containment is defined as for JSON in PostgreSQL.
        """

    def release(self, guest_uuid: UUID, fence: int) -> None:
        """Record that the guest is on no host and has no volumes.

        Nothing changes if a higher fence was recorded.
        """

    def volumes_in_use(self, volume_uuids: Collection[UUID]) -> AbstractContextManager[dict[UUID, UUID]]:
        """Yield the guest of each of these volumes that a guest has, by volume.

        Within the context, no guest can claim those of the volumes that no guest has.
        """


class CopyState(StrEnum):
    """The state of a template's copy in a pool."""

    READY = "ready"
    TO_MAKE = "to make"
    UNDER_WAY = "under way"


@dataclass(frozen=True, slots=True)
class TemplateCopy:
    """The copy of a template in a pool.

    ``attempt`` is the number of the attempt to make the copy, ``percent`` its progress. ``abandoned`` contains the
    numbers of earlier attempts that may have left an incomplete file.
    """

    attempt: int
    state: CopyState
    percent: int
    abandoned: Sequence[int] = ()


class TemplateCopies(Protocol):
    """The copies of templates in pools.

    Only one caller at a time makes a copy. A caller that reports no progress for a minute is considered dead. A
    template with another checksum is another image and gets another copy.
    """

    def find(self, template_uuid: UUID, pool_uuid: UUID, checksum: str | None = None) -> int | None:
        """Return the number of the attempt that completed the copy, or None if there is no complete copy."""

    def begin(self, template_uuid: UUID, pool_uuid: UUID, checksum: str | None = None) -> TemplateCopy:
        """Return the copy of a template in a pool, and begin an attempt if there is no copy.

        The state is READY if the copy is complete, TO_MAKE if the caller must make it under this attempt, and
        UNDER_WAY if another caller is making it.
        """

    def admit(self, template_uuid: UUID, pool_uuid: UUID, file_bytes: int, disk_bytes: int) -> str | None:
        """Count the file of a copy against the limits before the file is written into the pool.

        Returns None if the file may be written. Otherwise returns the reason: a limit of the template's owner, or
        too little free space in the pool. An attempt that ends without a copy is no longer counted.
        """

    def report(self, template_uuid: UUID, pool_uuid: UUID, attempt: int, percent: int) -> bool:
        """Record the progress of an attempt. Returns False if another attempt has taken over."""

    def end(self, template_uuid: UUID, pool_uuid: UUID, attempt: int, *, made: bool) -> bool:
        """Record that an attempt has ended, with a complete copy if ``made``.

        Returns False if another attempt has taken over.
        """


@dataclass(frozen=True, slots=True)
class GuestOrder:
    """The parameters of a VM's deploy call, for a driver that deploys the VM in another cloud by such a call.

    Objects have the same ids in both clouds.

    Attributes:
        custom_sizes: the sizes that the offering leaves to the deploy call: cpuNumber, cpuSpeed or memory.
        root_bytes: the size that a root disk of the template and the offering has unless another is requested.
        owner, domain_uuid, project_uuid: the account, or the project, that owns the VM.
        key_pairs: public keys by the names of the owner's key pairs.
        disk_offerings: the offerings of the data volumes, by the uuids of the volumes.
        affinity_group_uuids: the VM's affinity groups that were imported from the cloud. The cloud has no others.
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
    """Read-only access to the deploy parameters of VMs, and to the uuids of all VMs and volumes ever created."""

    def order(self, guest_uuid: UUID) -> GuestOrder | None:
        """Return the deploy parameters of a VM, or None if the VM does not exist."""

    def known_guests(self, guest_uuids: Collection[UUID]) -> frozenset[UUID]:
        """Return those of ``guest_uuids`` that are, or were, VMs of the service."""

    def known_volumes(self, volume_uuids: Collection[UUID]) -> frozenset[UUID]:
        """Return those of ``volume_uuids`` that are, or were, volumes of the service."""


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

    def read(self, uuid: UUID) -> Counterpart | None:
        """Return the record of a VM or volume, or None if none was ever written."""

    def record(self, uuid: UUID, root_uuid: UUID | None = None) -> Counterpart:
        """Record that the cloud is about to be called to create this VM or volume, and return the record."""

    def begin_next_attempt(self, uuid: UUID, attempt: int) -> None:
        """Record that the id of this attempt was used, so that the next attempt uses a new id.

        Nothing changes if a later attempt is already recorded.
        """

    def write_addresses(self, uuid: UUID, nics: Sequence[GivenNic]) -> None:
        """Write the addresses that the cloud assigned to the NICs of a VM into the rows of these NICs.

        If a NIC of another VM has one of the addresses, that NIC loses the address, because the cloud decides.
        """

    def guest_of_root(self, root_uuid: UUID) -> UUID | None:
        """Return the VM that is recorded with this root volume, or None."""

    def all(self) -> Mapping[UUID, Counterpart]:
        """Return all records by the uuids of their VMs and volumes."""


class ClusterTurns(Protocol):
    """Locks of hypervisor clusters. Over all processes, only one caller at a time holds a cluster's lock."""

    def turn(self, cluster: str, *, timeout_s: float) -> AbstractContextManager[None]:
        """Hold the lock of a cluster within the context, after waiting for other holders.

        The lock is released after TURN_SECONDS, even if the context has not ended, and when the process dies.

        Raises:
            TimeoutError: other callers held the lock for longer than ``timeout_s`` seconds.
        """


TURN_SECONDS = 60.0
"""The time after which PostgreSQL ends a session whose transaction is idle, in seconds."""


class SecurityRules(Protocol):
    """Read-only access to the current rules of VMs' security groups."""

    def of(self, guest_uuids: Collection[UUID]) -> Mapping[UUID, frozenset[Rule]]:
        """Return the rules of these VMs, with the addresses of peer groups.

        VMs without security groups are omitted.

        Incoming packets are dropped unless a rule accepts them. Outgoing packets are dropped if there are egress
        rules and none of them accepts the packet. Replies to accepted packets pass.
        """


@dataclass(frozen=True, slots=True)
class Records:
    """The records that the service stores for one driver."""

    directory: Directory
    fences: Fences
    copies: TemplateCopies
    orders: Orders
    counterparts: Counterparts
    security_rules: SecurityRules
    clusters: ClusterTurns
    fetcher: Fetcher


MakeRecords = Callable[[Callable[[str], bool]], Records]
"""Creates the records of a driver from a function that returns whether the driver serves a hypervisor type."""
