"""listHypervisorCapabilities: the limits of the service and the abilities of drivers, by hypervisor type."""

from typing import Any
from uuid import UUID, uuid5

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import string
from bulkdeploy.declare.response_fields import flag, large_number, number, text, texts
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.infrastructure.topology import HypervisorType
from bulkdeploy.drivers.abilities.ability import names_of
from bulkdeploy.drivers.abilities.snapshots import Snapshots
from bulkdeploy.drivers.registry import Drivers
from bulkdeploy.scheduling.volume_attachment import LAST_DEVICE
from bulkdeploy.services.infrastructure.host_admission import vms_limit
from bulkdeploy.store.rows.listing import Page, cut_page

OF_CAPABILITIES = UUID("5be5a1b0-6c0f-4d63-9c35-1f1d0a0e7f52")
"""The namespace of the ids of capabilities, which are no rows: an id follows from the hypervisor type's name."""


def list_hypervisor_capabilities(call: Call) -> Page:
    """Return one row per hypervisor. An unknown id or hypervisor returns an empty list."""
    wanted = {name: (call.text(name) or "").lower() for name in ("id", "hypervisor", "keyword")}
    rows = [
        row
        for row in (_row(kind, call.system.drivers) for kind in sorted(HypervisorType))
        if wanted["id"] in ("", row["id"])
        and wanted["hypervisor"] in ("", row["hypervisor"].lower())
        and wanted["keyword"] in row["hypervisor"].lower()
    ]
    return cut_page(rows, paging(call))


def _row(kind: HypervisorType, drivers: Drivers) -> dict[str, Any]:
    driver = drivers.find(kind.value)
    abilities = frozenset() if driver is None else driver.abilities
    return {
        "id": str(uuid5(OF_CAPABILITIES, kind.value)),
        "hypervisor": kind.value,
        "hypervisorversion": "default",
        "maxguestslimit": vms_limit(kind.value),
        "maxdatavolumeslimit": LAST_DEVICE,
        "storagemotionenabled": False,
        "vmsnapshotenabled": Snapshots in abilities,
        "drivername": None if driver is None else driver.name,
        "abilities": names_of(abilities),
    }


COMMANDS: tuple[Command, ...] = (
    Command(
        name="listHypervisorCapabilities",
        description=(
            "Lists, for each hypervisor, the default maximum of VMs per host and the abilities of its driver"
        ),
        handler=list_hypervisor_capabilities,
        shape=Shape.LIST,
        response=Response(
            "hypervisorCapabilities",
            (
                text("id", "the id of this set of capabilities"),
                text("hypervisor", "the hypervisor"),
                text("hypervisorversion", 'always "default": capabilities are the same for all versions'),
                large_number("maxguestslimit", "the maximum number of VMs per host"),
                number("maxdatavolumeslimit", "the maximum number of data volumes per VM"),
                flag("storagemotionenabled", "always false: volumes cannot be moved between pools"),
                flag("vmsnapshotenabled", "whether the driver supports snapshots of VMs"),
                text("drivername", "the driver for the hypervisor; absent if the settings name none"),
                texts(
                    "abilities",
                    "the abilities of the driver, such as live migration; calls that need other "
                    "abilities are rejected",
                ),
            ),
        ),
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            string("id", "only these capabilities"),
            string("hypervisor", "only capabilities of this hypervisor"),
            *PAGING,
        ),
    ),
)
