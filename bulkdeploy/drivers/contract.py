"""The contract of drivers as pytest classes, which the tests of a driver inherit.

This module needs pytest.

docs/tutorials/drivers.md shows how. Every driver inherits ``DriverContract`` and ``HostContract``.
``BatchContract`` is for subclasses of ``BatchDriver``, ``FencingContract`` for hypervisors that check fences, and
``CapacityContract`` for hypervisors that reject guests for which they do not have enough memory. Each of the other
classes is for one ability.
"""

import pytest

pytest.register_assert_rewrite("bulkdeploy.drivers.contract_suites")

from bulkdeploy.drivers.contract_suites.batches import BatchContract  # noqa: E402 - rewritten first
from bulkdeploy.drivers.contract_suites.capacity import CapacityContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.consoles import (  # noqa: E402
    SerialConsoleContract,
    VncConsoleContract,
    open_screen,
    open_serial,
)
from bulkdeploy.drivers.contract_suites.details import DetailsContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.devices import DeviceContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.fencing import FencingContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.guests import DriverContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.host_fencing import HostFencingContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.host_files import HostFilesContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.hosts import HostContract, Machines  # noqa: E402
from bulkdeploy.drivers.contract_suites.isos import IsoContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.leftovers import LeftoversContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.migration import MigrationContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.outages import DeclaredOffContract, Outage, OutageContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.resizing import ResizeContract, ShrinkContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.scaling import ScalingContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.security_groups import Filtering, SecurityGroupContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.snapshots import Contents, SnapshotContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.storage_units import StorageUnitContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.subjects import (  # noqa: E402
    PATIENCE_S,
    Caller,
    Rig,
    Subjects,
    guests_of,
    volume_uuids,
)
from bulkdeploy.drivers.contract_suites.usage import UsageContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.volume_templates import VolumeTemplateContract  # noqa: E402
from bulkdeploy.drivers.contract_suites.volumes import VolumeContract  # noqa: E402

__all__ = [
    "PATIENCE_S",
    "BatchContract",
    "Caller",
    "CapacityContract",
    "Contents",
    "DeclaredOffContract",
    "DetailsContract",
    "DeviceContract",
    "DriverContract",
    "FencingContract",
    "Filtering",
    "HostContract",
    "HostFencingContract",
    "HostFilesContract",
    "IsoContract",
    "LeftoversContract",
    "Machines",
    "MigrationContract",
    "Outage",
    "OutageContract",
    "ResizeContract",
    "Rig",
    "ScalingContract",
    "SecurityGroupContract",
    "SerialConsoleContract",
    "ShrinkContract",
    "SnapshotContract",
    "StorageUnitContract",
    "Subjects",
    "UsageContract",
    "VncConsoleContract",
    "VolumeContract",
    "VolumeTemplateContract",
    "guests_of",
    "open_screen",
    "open_serial",
    "volume_uuids",
]
