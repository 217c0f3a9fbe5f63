"""The optional abilities of hypervisors, beyond running, stopping and removing guests."""

from enum import StrEnum


class Ability(StrEnum):
    """An ability that a driver declares in ``HypervisorDriver.abilities``.

    API calls that need an ability which the driver lacks are rejected before a job is created
    (``services.abilities``).
    """

    LIVE_MIGRATION = "live migration"
    """``ensure_migrated``: a running guest moves to another host."""

    LIVE_SCALING = "live scaling"
    """``ensure_scaled``: a running guest gets more CPU and memory."""

    DATA_VOLUMES = "data volumes"
    """Guests may have volumes beside their root disk."""

    HOT_PLUG_VOLUMES = "hot plug of volumes"
    """``ensure_devices``: a running guest gets and loses volumes."""

    HOT_PLUG_NICS = "hot plug of nics"
    """``ensure_devices``: a running guest gets and loses nics."""

    ISOS = "ISOs"
    """``ensure_running``, ``ensure_drive``: a guest has ``GuestSpec.iso_uuid`` in its drive, and boots from there
    where its root volume does not boot."""

    UEFI = "UEFI"
    """``ensure_running`` starts guests with the firmware of ``GuestSpec.uefi``."""

    RESIZE_VOLUMES = "resizing of volumes"
    """``ensure_resized``, ``size_of``: a volume grows while its guest runs."""

    SHRINK_VOLUMES = "shrinking of volumes"
    """``ensure_resized``, ``size_of``: a volume shrinks while its guest does not run."""

    GUEST_PASSWORDS = "guest passwords"
    """``ensure_running`` hands ``GuestSpec.password`` to the guest."""

    GUEST_DETAILS = "details of guests"
    """``details_of_guests``: the hypervisor alone tells what a guest was started with, so it can be adopted."""

    SNAPSHOTS = "snapshots"
    """``ensure_snapshot``, ``ensure_reverted``, ``ensure_snapshot_absent``: of guests that do not run."""

    MEMORY_SNAPSHOTS = "snapshots with memory"
    """The same of guests that run, with their memory."""

    LIVE_SNAPSHOTS = "snapshots of running guests without memory"
    """``ensure_snapshot`` of a guest that runs, of its volumes alone."""

    VOLUME_SNAPSHOTS = "snapshots of volumes"
    """The same of one of a guest's volumes (``SnapshotSpec.volume_uuid``)."""

    VOLUME_TEMPLATES = "templates of volumes"
    """``ensure_template_made``: a volume of a guest that does not run is copied into a template."""

    USAGE = "usage figures"
    """``usage_of_hosts``: what hosts and running guests have used is measured."""

    GUEST_AGENTS = "guest agents"
    """``answers_of_guests``: the agents in guests are asked whether they answer."""

    VNC_CONSOLE = "VNC console"
    """``open_console``: the screen of a running guest."""

    SERIAL_CONSOLE = "serial console"
    """``open_console``: the serial console of a running guest."""

    SECURITY_GROUPS = "security groups"
    """``ensure_filters``: guests receive and send only what the rules of their security groups let through."""

    HOST_FENCING = "fencing of hosts"
    """``ensure_fenced``: a host that may be dead is made to run nothing, such as by cutting its power."""

    TEMPLATE_VARIANTS = "variants of templates"
    """``ensure_running`` makes a guest from ``GuestSpec.template_variant`` of its template."""

    HOST_FILES = "files on hosts"
    """``states_of_files``, ``put_file``: hosts get the files that the settings declare."""

    CUSTOM_ACTIONS = "custom actions"
    """``run_custom_action``: what else the hypervisor does with a guest, under names that an operator adds."""

    STORAGE_UNITS = "listing of storage units"
    """``look_at_storage``: what hosts keep data on, with size and health."""

    STORAGE_REPAIR = "repair of storage units"
    """``repair_unit``: a unit that is not healthy is made whole, without what was lost."""
