"""Abilities of ``ensure_running``, which have no call of their own."""

from bulkdeploy.drivers.abilities.ability import Ability


class UefiFirmware(Ability):
    """The ability to start guests with the firmware of ``GuestSpec.uefi``."""

    ability_name = "UEFI"


class GuestPasswords(Ability):
    """The ability to pass ``GuestSpec.password`` to the guest."""

    ability_name = "guest passwords"


class TemplateVariants(Ability):
    """The ability to make a guest from the variant ``GuestSpec.template_variant`` of its template."""

    ability_name = "variants of templates"
