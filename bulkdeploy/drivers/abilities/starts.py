"""Abilities that change what ``ensure_running`` can do and have no method of their own."""

from bulkdeploy.drivers.abilities.ability import Ability


class UefiFirmware(Ability):
    """The ability to start guests with the UEFI boot mode in ``GuestSpec.uefi``."""

    ability_name = "UEFI"


class GuestPasswords(Ability):
    """The ability to pass ``GuestSpec.password`` to the guest."""

    ability_name = "guest passwords"


class TemplateVariants(Ability):
    """The ability to create guests from variants of templates (``GuestSpec.template_variant``)."""

    ability_name = "variants of templates"
