"""The contract of drivers that report the details with which guests were started."""

from bulkdeploy.drivers.abilities.details import DescribedGuests, GuestDetails, GuestNic
from bulkdeploy.drivers.contract_suites.subjects import AbilityContract, Caller, Rig, guests_of
from bulkdeploy.drivers.guests import GuestSpec


def details_of(guest: GuestSpec) -> GuestDetails:
    """Return the details that a driver must report for a guest that was started from this specification."""
    return GuestDetails(
        guest.uuid,
        guest.name,
        guest.volumes[0].template_uuid,
        tuple(volume.uuid for volume in guest.volumes),
        tuple(GuestNic(nic.uuid, nic.mac_address, nic.network_uuid, nic.ip_address) for nic in guest.nics),
    )


class DetailsContract(AbilityContract, of=DescribedGuests):
    """The contract of reported details, from which lost rows of guests can be written again."""

    def test_guests_tell_what_they_were_started_with(self, rig: Rig, caller: Caller) -> None:
        """The details contain the name, the template, the volumes and the NICs of each guest in order.

        Removed guests are omitted.
        """
        guests = [rig.new_guest() for _ in range(3)]
        for guest, host in zip(guests, (rig.hosts[0], rig.hosts[1], rig.hosts[1]), strict=True):
            caller.run(host, guest)
        listed = guests_of(rig.driver)
        caller.remove(rig.hosts[1], guests[2])
        found = DescribedGuests.of(rig.driver).details_of_guests([listed[guest.uuid] for guest in guests])
        assert {one.uuid: one for one in found} == {guest.uuid: details_of(guest) for guest in guests[:2]}
