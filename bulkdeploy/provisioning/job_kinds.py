"""The kinds of jobs: one entry per kind."""

from collections.abc import Callable, Mapping
from threading import Semaphore

from sqlalchemy import Engine

from bulkdeploy.domain.jobs import JobKind
from bulkdeploy.drivers.registry import FindsDrivers
from bulkdeploy.provisioning.deploy_virtual_machine import DeployVirtualMachine
from bulkdeploy.provisioning.destroy_virtual_machine import DestroyVirtualMachine, ExpungeVirtualMachine
from bulkdeploy.provisioning.driver_calls import DriverCalls
from bulkdeploy.provisioning.migrate_virtual_machine import MigrateVirtualMachine
from bulkdeploy.provisioning.nics import AddNic, RemoveNic
from bulkdeploy.provisioning.reboot_virtual_machine import RebootVirtualMachine
from bulkdeploy.provisioning.restore_virtual_machine import RestoreVirtualMachine
from bulkdeploy.provisioning.scale_virtual_machine import ScaleVirtualMachine
from bulkdeploy.provisioning.start_virtual_machine import StartVirtualMachine
from bulkdeploy.provisioning.steps import JobSteps
from bulkdeploy.provisioning.stop_virtual_machine import StopVirtualMachine
from bulkdeploy.provisioning.volume_attachment import AttachVolume, DetachVolume

PLANNERS_AT_ONCE = 4
"""Planning one VM reads a zone's snapshot; when a rack dies, a process must not do that for every VM at once,
nor take all its database connections for it."""


def steps_of_all_kinds(
    engine: Engine,
    drivers: FindsDrivers,
    *,
    lease_seconds: float,
    driver_timeout_s: float,
    decrypt: Callable[[bytes], str],
) -> Mapping[JobKind, JobSteps]:
    """What each kind of job consists of, with the given drivers; ``decrypt`` reads guests' passwords."""
    calls = DriverCalls(drivers, driver_timeout_s, decrypt)
    planning = Semaphore(PLANNERS_AT_ONCE)
    return {
        JobKind.DEPLOY: DeployVirtualMachine(engine, planning, calls, lease_seconds),
        JobKind.START: StartVirtualMachine(engine, planning, calls, lease_seconds),
        JobKind.STOP: StopVirtualMachine(calls),
        JobKind.DESTROY: DestroyVirtualMachine(calls),
        JobKind.EXPUNGE: ExpungeVirtualMachine(calls),
        JobKind.REBOOT: RebootVirtualMachine(engine, planning, calls, lease_seconds),
        JobKind.SCALE: ScaleVirtualMachine(engine, calls, lease_seconds),
        JobKind.RESTORE: RestoreVirtualMachine(engine, planning, calls, lease_seconds),
        JobKind.MIGRATE: MigrateVirtualMachine(engine, planning, calls, lease_seconds),
        JobKind.ATTACH_VOLUME: AttachVolume(engine, calls, lease_seconds),
        JobKind.DETACH_VOLUME: DetachVolume(engine, calls, lease_seconds),
        JobKind.ADD_NIC: AddNic(engine, calls, lease_seconds),
        JobKind.REMOVE_NIC: RemoveNic(engine, calls, lease_seconds),
    }
