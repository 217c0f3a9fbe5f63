"""The details with which guests were started, as hypervisors report them."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.guests import Guest


@dataclass(frozen=True, slots=True)
class GuestNic:
    """A NIC as a hypervisor reports it. ``network_uuid`` and ``ip_address`` are None if unknown or not set."""

    uuid: UUID
    mac_address: str
    network_uuid: UUID | None
    ip_address: str | None


@dataclass(frozen=True, slots=True)
class GuestDetails:
    """The details with which a guest was started, in addition to those of ``Guest``.

    Volumes and NICs are in order, the root volume first. ``template_uuid`` is the template of its root volume, or
    None if the hypervisor does not know it.
    """

    uuid: UUID
    name: str
    template_uuid: UUID | None
    volume_uuids: tuple[UUID, ...]
    nics: tuple[GuestNic, ...]


class DescribedGuests(Ability):
    """The ability to report the details with which guests were started, so that guests can be adopted."""

    ability_name = "details of guests"

    @abstractmethod
    def details_of_guests(self, guests: Sequence[Guest]) -> Sequence[GuestDetails]:
        """Return the details with which guests from ``list_guests`` were started.

        Guests that no longer exist, or whose details are incomplete, are omitted. The details are read only from
        the hypervisor, because the database may lack some of them.

        Raises:
            DriverError: a host does not answer.
        """
