"""What VMs were ordered as, and which hosts there are, where no zone is set up."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from bulkdeploy.drivers.records import GuestOrder


class AnyOffering(Mapping[UUID, UUID]):
    """The same disk offering for any volume."""

    def __init__(self, offering_uuid: UUID) -> None:
        self._offering = offering_uuid

    def __getitem__(self, volume_uuid: UUID) -> UUID:
        return self._offering

    def __iter__(self) -> Iterator[UUID]:
        return iter(())

    def __len__(self) -> int:
        return 0


class EveryVolume(frozenset[UUID]):
    """All volumes: the size of each one is left to the call that creates it."""

    def __contains__(self, volume_uuid: object) -> bool:
        return True


@dataclass(frozen=True)
class FixedOrders:
    """The same order for every guest."""

    fixed: GuestOrder

    def order(self, guest_uuid: UUID) -> GuestOrder:
        """See Orders."""
        del guest_uuid
        return self.fixed

    def known_guests(self, guest_uuids: Collection[UUID]) -> frozenset[UUID]:
        """See Orders."""
        del guest_uuids
        return frozenset()

    def known_volumes(self, volume_uuids: Collection[UUID]) -> frozenset[UUID]:
        """See Orders."""
        del volume_uuids
        return frozenset()
