"""The interface of hypervisor drivers: idempotent calls and queries (one file: one protocol, whole).

A call names its guest by the VM's uuid, and may be repeated, because after a crash it is unknown whether the
first call arrived. ``fence`` is the number of the job's lease. A hypervisor that can compare fences rejects a call
with a lower fence than it has seen for the guest: the caller was paused, and another worker has taken over its job.
Calls of optional abilities are in ``abilities``. docs/tutorials/drivers.md walks through an example.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, ClassVar, Self
from uuid import UUID

from bulkdeploy.domain.virtual_machines.device_parameters import Device
from bulkdeploy.drivers.abilities.ability import Ability, abilities_of
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.parallel_calls import call_each
from bulkdeploy.drivers.guests import Guest, GuestCheck, GuestSpec, PowerState
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.options import DriverOptions
from bulkdeploy.drivers.records import Records
from bulkdeploy.processes.tcp_ports import reachable_ports

NOBODY = UUID(int=0)
"""A uuid that no guest has."""


class HypervisorDriver(ABC):
    """The interface of the driver of one hypervisor type. A driver is a subclass; threads share its object.

    Attributes:
        options_model: the class of the options that ``from_options`` is given.
        abilities: the classes in ``bulkdeploy.drivers.abilities`` that the driver inherits; derived, not declared.
        device_parameters: the parameters of disks and NICs that the driver knows. Calls with others are rejected.
        is_watched: whether hosts may fail, so that the sweeper calls ``look_at_hosts``.
        guests_may_end: whether guests of watched hosts may end by themselves. If False, ``look_at_hosts`` need not
            return guests.
    """

    options_model: ClassVar[type[DriverOptions]] = DriverOptions
    abilities: ClassVar[frozenset[type[Ability]]] = frozenset()
    device_parameters: ClassVar[Mapping[Device, frozenset[str]]] = MappingProxyType({})
    is_watched: bool = False
    guests_may_end: ClassVar[bool] = True
    _records: Records

    def __init_subclass__(cls) -> None:
        if "abilities" in vars(cls):
            raise TypeError(
                f"{cls.__name__} sets abilities. A driver inherits its abilities instead, as classes of the modules"
                " in bulkdeploy.drivers.abilities; docs/reference/drivers.md lists these classes"
            )
        super().__init_subclass__()
        cls.abilities = abilities_of(cls)
        if late := [
            one.__name__ for one in cls.__mro__[cls.__mro__.index(HypervisorDriver) :] if one in cls.abilities
        ]:
            # Methods of HypervisorDriver would override the abstract methods of the ability.
            raise TypeError(f"{cls.__name__} must name {', '.join(late)} before HypervisorDriver among its bases")

    @classmethod
    @abstractmethod
    def from_options(cls, options: Any) -> Self:
        """Create the driver from an object of ``options_model``. Hosts need not answer at this moment."""

    def use_records(self, records: Records) -> None:
        """Set the records that the service stores for the driver. This is called once, before all other calls."""
        self._records = records

    @abstractmethod
    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """Connect to a machine, register the machine under its uuid, and return its hardware.

        If the machine is already registered, its hardware is read again.

        Raises:
            DriverError: no hypervisor answers at the address of the machine.
        """

    def admit_hosts(self, hosts: Sequence[NewHost], *, timeout_s: float) -> list[HostModel | DriverError]:
        """Admit several hosts, HOSTS_AT_ONCE at a time, and return the result or error of each in order.

        Each host may take ``timeout_s`` seconds. A host that fails does not affect the others.
        """
        return call_each(hosts, lambda host: self.admit_host(host, timeout_s=timeout_s))

    def look_at_hosts(
        self, hosts: Sequence[HostAddress], *, timeout_s: float
    ) -> list[Sequence[Guest] | DriverError]:
        """Return the guests of each host, or an error, in order.

        The default implementation lists all guests.

        An error means that the host does not answer. HostDrained means that the host answers and accepts no new
        guests.

        Raises:
            DriverError: no host could be queried, and the cause is not on the hosts.
        """
        del timeout_s
        guests = list(self.list_guests())
        return [[guest for guest in guests if guest.host_uuid == host.uuid] for host in hosts]

    def memory_of_hosts(self, hosts: Sequence[HostAddress], *, timeout_s: float) -> Mapping[UUID, int]:
        """Return the MiB of memory that the service's guests may use on hosts where this value changes.

        The value has the meaning of ``HostModel.memory_mib`` when a host is added. Hosts whose memory is constant
        or currently unknown are omitted.

        Raises:
            DriverError: the memory of no host could be read.
        """
        del hosts, timeout_s
        return {}

    def answers_of_guests(self, checks: Sequence[GuestCheck], *, timeout_s: float) -> Mapping[UUID, bool]:
        """Return for each guest whether the guest passes its health check.

        The value is False for a guest that does not respond, that does not run on the host of the check, or whose
        host does not respond. A guest is omitted if the hypervisor cannot check it, or if the check must be
        repeated. The default implementation connects to TCP ports from this machine, and omits checks by guest
        agents.

        Raises:
            DriverError: no guest could be checked, and the cause is not in the guests.
        """
        return answers_of_ports(checks, timeout_s=timeout_s)

    def ended_guests(self, hosts: Sequence[HostAddress]) -> frozenset[UUID]:
        """Return the guests of these hosts that were reported as ended since the last call, without waiting.

        The result is a hint for frequent checks: guests may be missing from the result, and some of its guests may
        run. The result is empty if the hypervisor sends no such reports.
        """
        del hosts
        return frozenset()

    def ensure_template(  # noqa: B027 - others have their templates themselves
        self, host: HostAddress, pool_uuid: UUID, template_uuid: UUID, *, timeout_s: float
    ) -> None:
        """Ensure that a pool of ``host`` has the image of a template or an ISO.

        This is called before each start, and before a running guest gets an ISO. If the pool already has the image,
        nothing is done. Otherwise the image is fetched, once per pool, which may take long.

        Raises:
            DriverError: the pool does not have the image.
        """

    @abstractmethod
    def ensure_running(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Create and start ``guest`` on ``host`` with its volumes and NICs.

        Volumes that are too small are enlarged.

        Raises:
            DriverError: the guest does not run. Parts of the guest may exist, which ``ensure_absent`` deletes. The
                call also fails if the guest is on another host, so that it never runs twice, and if a volume with
                ``was_made`` does not exist, because such a volume is never created again.
        """

    @abstractmethod
    def ensure_stopped(
        self, host: HostAddress, guest_uuid: UUID, *, forced: bool, fence: int, timeout_s: float
    ) -> None:
        """Stop the guest and remove its definition from the host.

        Its volumes are kept. A missing guest is no error.

        Raises:
            DriverError: the guest may still run. ``power_of`` returns whether it does.
        """

    def find_guest(self, guest_uuid: UUID) -> Sequence[Guest]:
        """Return every copy of one guest on any host. A guest that runs on two hosts is returned twice.

        Raises:
            DriverError: a host could not be queried, so the guest may be on that host as well.
        """
        return [guest for guest in self.list_guests() if guest.uuid == guest_uuid]

    @abstractmethod
    def ensure_copy_gone(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> None:
        """Remove a guest that belongs to another host from this host by cutting its power.

        The guest's volumes and records are kept. A missing guest is no error.

        Raises:
            DriverError: the guest may still run on this host.
        """

    @abstractmethod
    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """Return the power state of a guest on this host, or None if the guest is not there.

        After None, no call with a lower fence can start the guest here. The guest may start on another host.

        Raises:
            DriverError: the power state cannot be read now, or the guest is on another host.
        """

    @abstractmethod
    def ensure_absent(
        self,
        host: HostAddress | None,
        guest_uuid: UUID,
        volume_uuids: Sequence[UUID],
        *,
        fence: int,
        timeout_s: float,
    ) -> None:
        """Delete the guest and these volumes. If ``host`` is None, they are deleted wherever they are.

        Raises:
            DriverError: parts of the guest, or some of the volumes, may still exist.
        """

    @abstractmethod
    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """Delete a volume that no VM uses from a pool. A missing volume is no error.

        Raises:
            DriverError: the volume may still exist, for example because a guest that was not stopped uses it.
        """

    def ensure_overcommit(
        self, host_uuids: Sequence[UUID], cpu_overcommit: Decimal, memory_overcommit: Decimal, *, timeout_s: float
    ) -> None:
        """Set the over-commit ratios of these hosts' CPU and memory. Running guests are not affected.

        Unknown hosts are skipped. Hypervisors without such a limit do nothing.

        Raises:
            DriverError: some of the hosts may still have their previous ratios.
        """
        del host_uuids, cpu_overcommit, memory_overcommit, timeout_s

    def answers(self, host: HostAddress, *, timeout_s: float) -> bool | None:
        """Return whether a host itself answers, or None if its hypervisor cannot find out.

        The default implementation queries the host for a guest that does not exist. A driver of a cluster that
        answers for its members overrides this method, because the cluster's answer does not depend on the member.
        """
        try:
            self.power_of(host, NOBODY, fence=0, timeout_s=timeout_s)
        except DriverError:
            return False
        return True

    def activity_mark(
        self, host: HostAddress, other: HostAddress, volumes: Sequence[tuple[UUID, UUID]], *, timeout_s: float
    ) -> str | None:
        """Return a text that changes whenever guests of ``host`` write to volumes.

        Returns None if this hypervisor can never read such a text: then silence of the host counts as inactivity.
        ``host`` does not answer, so the text is read through ``other``, which has the same shared pools. Each
        volume is given by the uuids of its pool and of itself. If two calls return equal texts, nothing was written
        in between.

        Raises:
            DriverError: the text could not be read this time. The host must not be fenced because of this error.
        """
        del host, other, volumes, timeout_s
        return None

    def declare_off(self, host: HostAddress, *, timeout_s: float) -> None:
        """Tell the hypervisor that a host was switched off.

        This is called after the management controller of the host has reported Off, and may be repeated. Some
        hypervisors start the host's guests elsewhere only after this call. The default implementation does nothing.

        Raises:
            DriverError: the hypervisor may still count the host as running.
        """
        del host, timeout_s

    def end_leftovers(self, host: HostAddress, kept: Collection[UUID], *, timeout_s: float) -> None:
        """Stop every guest of this service on a host except ``kept``. The volumes of the guests are kept.

        This is called for a host that was declared off, before it accepts guests again. Its guests may run on other
        hosts by now, and nothing starts on the host during the call. The call may be repeated.

        Raises:
            DriverError: the host cannot be queried, or a guest may still run there.
        """
        for guest_uuid in {guest.uuid for guest in self._guests_there(host, timeout_s)} - set(kept):
            fence = self._records.fences.highest(guest_uuid)
            self.ensure_copy_gone(host, guest_uuid, fence=fence, timeout_s=timeout_s)

    def _guests_there(self, host: HostAddress, timeout_s: float) -> Sequence[Guest]:
        """Return the guests that are on one host, including guests that belong to other hosts.

        Raises:
            DriverError: the host cannot be queried.
        """
        if not (self.is_watched and self.guests_may_end):
            return [guest for guest in self.list_guests() if guest.host_uuid == host.uuid]
        (found,) = self.look_at_hosts([host], timeout_s=timeout_s)
        if isinstance(found, DriverError):
            raise found
        return found

    def pool_size_bytes(self, url: str, *, timeout_s: float) -> int | None:
        """Return the size of the primary storage behind a url such as ``nfs://server/path``, in bytes.

        Returns None if the driver cannot measure pools that no host uses yet.

        Raises:
            DriverError: the size could not be measured.
        """
        del url, timeout_s
        return None

    @abstractmethod
    def list_guests(self) -> Iterator[Guest]:
        """List every guest that exists, in any order. The audit compares the rows of VMs with this list.

        Raises:
            DriverError: the list would be incomplete.
        """

    @abstractmethod
    def list_volumes(self) -> Iterator[tuple[UUID, UUID, int]]:
        """List every volume that exists, as its uuid, the uuid of its pool, and its size in bytes.

        Raises:
            DriverError: the list would be incomplete.
        """

    def list_seen_guests(self, unseen: dict[UUID, str]) -> Iterator[Guest]:
        """List every guest that can be read now, and add the unreadable hosts and guests to ``unseen``.

        A key of ``unseen`` is the uuid of a host, whose guests may be missing from the list, or of a single guest.
        The value is the reason. The default implementation lists either all guests or none, so drivers that query
        hosts one by one override this method.
        """
        try:
            yield from self.list_guests()
        except DriverError as error:
            unseen.update((host.uuid, str(error)) for host in self._records.directory.hosts())

    def list_seen_volumes(self, unseen: dict[UUID, str]) -> Iterator[tuple[UUID, UUID, int]]:
        """List every volume that can be read now, and add the pools that may have more volumes to ``unseen``.

        A key of ``unseen`` is the uuid of a pool, and the value is the reason.
        """
        try:
            yield from self.list_volumes()
        except DriverError as error:
            unseen.update((pool.uuid, str(error)) for pool in self._records.directory.pools())

    def close(self) -> None:  # noqa: B027 - a driver that holds nothing has nothing to give back
        """Close all connections. The driver is not used afterwards."""


def answers_of_ports(checks: Sequence[GuestCheck], *, timeout_s: float) -> dict[UUID, bool]:
    """Return for each guest whose health check is a TCP port whether this machine can connect to the port."""
    ports = [check for check in checks if check.check.port is not None]
    reached = reachable_ports([(check.address, check.check.port) for check in ports], timeout_s=timeout_s)
    return {check.guest_uuid: answer for check, answer in zip(ports, reached, strict=True)}
