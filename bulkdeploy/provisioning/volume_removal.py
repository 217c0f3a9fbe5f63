"""The sweeper's removal of deleted volumes from their storage pools, after which their capacity is released.

Several processes may remove volumes at the same time, and each may die at any line: the removal is requested again
until a process has recorded that the volume is deleted.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Engine, Row

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.registry import FindsDrivers
from bulkdeploy.processes.failpoints import Failpoint, after, before
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.ledger.volume_removal import (
    destroy_orphaned_volumes,
    end_removals_of_volumes,
    volumes_to_remove,
)
from bulkdeploy.telemetry import metrics

log = structlog.get_logger(__name__)

AT_ONCE = 16
"""Driver calls that one process makes at the same time."""

MOST_TURNS = 100

OWNERLESS_AT_ONCE = 1000

AGAIN_S = 60.0
"""A volume that could not be removed is tried again after this."""

PATIENCE_S = 10.0
"""What takes longer goes on without us, and is asked for again: other passes wait for this one."""


class VolumeRemoval:
    """The sweeper's pass that removes deleted volumes.

    Args:
        engine: the database.
        drivers: the drivers of hypervisors.
        timeout_s: the timeout of one driver call in seconds, at most PATIENCE_S.
    """

    def __init__(self, engine: Engine, drivers: FindsDrivers, timeout_s: float) -> None:
        self._engine, self._drivers, self._timeout_s = engine, drivers, min(timeout_s, PATIENCE_S)

    def destroy_ownerless(self) -> None:
        """Mark volumes as deleted whose owner was deleted while a VM with these volumes was being removed."""
        destroy = partial(destroy_orphaned_volumes, most=OWNERLESS_AT_ONCE)
        _report("volumes_of_nobody", run_transaction(self._engine, destroy, Failpoint.SWEEP_OWNERLESS))

    def remove_volumes(self) -> None:
        """Remove the due volumes from their pools until none is due. Failed removals are tried again later.

        After MOST_TURNS rounds the rest waits for the next call, so that other passes of the sweeper are not
        delayed.
        """
        for _ in range(MOST_TURNS):
            with read_only(self._engine) as connection:
                due = volumes_to_remove(connection, most=AT_ONCE)
            if not due:
                return
            with ThreadPoolExecutor(AT_ONCE) as threads:
                is_gone = list(threads.map(self._remove, due))
            gone = [row.uuid for row, done in zip(due, is_gone, strict=True) if done]
            left = [row.uuid for row, done in zip(due, is_gone, strict=True) if not done]
            end = partial(end_removals_of_volumes, gone=gone, left=left, again_s=AGAIN_S)
            run_transaction(self._engine, end, Failpoint.SWEEP_VOLUMES)
            _report("volumes_removed", len(gone))
            if left:
                return

    def _remove(self, volume: Row[Any]) -> bool:
        """Delete a volume through all hypervisors that its pool serves. Return False if one of them failed."""
        before(Failpoint.DRIVER_DELETE_VOLUME)
        try:
            for hypervisor in volume.hypervisors:
                driver = self._drivers.driver_for(hypervisor)
                driver.ensure_volume_absent(volume.pool_uuid, volume.uuid, timeout_s=self._timeout_s)
        except DriverError as error:
            log.warning("volume_not_removed", volume=str(volume.uuid), pool=volume.pool_name, why=str(error))
            return False
        except Exception:
            log.exception("volume_not_removed", volume=str(volume.uuid), pool=volume.pool_name)
            return False
        after(Failpoint.DRIVER_DELETE_VOLUME)
        return True


def _report(what: str, volumes: int) -> None:
    if volumes:
        metrics.SWEPT.labels(what).inc(volumes)
        log.info(what, volumes=volumes)
