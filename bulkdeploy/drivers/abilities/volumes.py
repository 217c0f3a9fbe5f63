"""The ability to have data volumes."""

from bulkdeploy.drivers.abilities.ability import Ability


class DataVolumes(Ability):
    """The ability of guests to have volumes in addition to their root disk."""

    ability_name = "data volumes"
