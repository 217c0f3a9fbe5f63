"""The ability to create templates from volumes."""

from abc import abstractmethod
from uuid import UUID

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.guests import GuestSpec, VolumeSpec


class VolumeTemplates(Ability):
    """The ability to copy a volume of a guest that does not run into a template."""

    ability_name = "templates of volumes"

    @abstractmethod
    def ensure_template_made(
        self, guest: GuestSpec, volume: VolumeSpec, template_uuid: UUID, *, fence: int, timeout_s: float
    ) -> None:
        """Copy a volume of a stopped guest into a template in the same pool, unless the template exists.

        Afterwards ``ensure_template`` and ``ensure_running`` accept the template like any other. The volume is not
        changed.

        Raises:
            DriverError: parts of the template may exist, which the next call replaces. If the guest runs or does
                not have the volume, the error is not transient.
        """
