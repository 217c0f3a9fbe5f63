"""The sweeper's periodic work with services: snapshots, schedules, leases, deployment sizes, balancing.

Several processes may do the same work at the same time, and each may be killed at any moment, because each step is
one transaction.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import structlog
from sqlalchemy import Connection

from bulkdeploy.commands.deployments import reconciliation
from bulkdeploy.domain.errors import BulkDeployError
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.services.fleets import scheduled_operations
from bulkdeploy.services.infrastructure import cluster_drs
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines import leases
from bulkdeploy.services.volumes import snapshot_policies
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.deployments.managed_deployments import due_deployments
from bulkdeploy.store.virtual_machines.leases import due_leases
from bulkdeploy.store.virtual_machines.vm_schedules import due_schedules
from bulkdeploy.store.volumes.snapshot_policies import due_policies, surplus_snapshots

log = structlog.get_logger(__name__)

AT_ONCE = 500
"""The most rows that one pass handles. The next pass handles the rest."""

Work: TypeAlias = tuple[Callable[..., None], Failpoint]
"""A function that runs in a transaction, and the failpoint of its commit."""


@dataclass(frozen=True, slots=True)
class DueRows:
    """The rows of one kind that become due at certain times, and the function that handles each row.

    Attributes:
        name: the name of the pass in logs and metrics.
        every_s: the seconds between two passes.
        system: passed to ``work`` and ``give_up``.
        read: returns the ids of rows that are due, at most as many as its second argument.
        names: the names of the parameters of ``work`` that get these ids.
        work: handles one row; locks the row, and does nothing if the row is no longer due.
        give_up: is called in a second transaction, with the error as ``why``, if ``work`` raises BulkDeployError.
    """

    name: str
    every_s: float
    system: System
    read: Callable[[Connection, int], Iterable[tuple[Any, ...]]]
    names: tuple[str, ...]
    work: Work
    give_up: Work

    def handle(self) -> None:
        """Handle all rows that are due, each in its own transaction.

        If ``work`` fails for a row, its transaction is rolled back and ``give_up`` is called for the row.
        """
        (work, point), (give_up, give_up_point) = self.work, self.give_up
        with read_only(self.system.engine) as connection:
            due = list(self.read(connection, AT_ONCE))
        for ids in due:
            row = {"system": self.system, **dict(zip(self.names, ids, strict=True))}
            try:
                run_transaction(self.system.engine, partial(work, **row), point)
            except BulkDeployError as error:
                run_transaction(self.system.engine, partial(give_up, why=str(error), **row), give_up_point)


def due_snapshot_policies(system: System) -> DueRows:
    """Return the work that creates the jobs of snapshots that policies require now."""
    return DueRows(
        "take_snapshots",
        10.0,
        system,
        due_policies,
        ("policy_id", "volume_id"),
        (snapshot_policies.take_snapshot, Failpoint.SWEEP_POLICIES),
        (snapshot_policies.postpone_snapshot, Failpoint.SWEEP_POLICY_FAILED),
    )


def due_vm_schedules(system: System) -> DueRows:
    """Return the work that starts the bulk operations of schedules that are due."""
    return DueRows(
        "run_schedules",
        2.0,
        system,
        due_schedules,
        ("schedule_id", "vm_id"),
        (scheduled_operations.run_schedule, Failpoint.SWEEP_SCHEDULES),
        (scheduled_operations.skip_occurrence, Failpoint.SWEEP_SCHEDULE_FAILED),
    )


def due_vm_leases(system: System) -> DueRows:
    """Return the work that stops and destroys VMs whose leases have expired."""
    return DueRows(
        "expire_leases",
        10.0,
        system,
        due_leases,
        ("vm_id",),
        (leases.expire_lease, Failpoint.SWEEP_LEASES),
        (leases.postpone_expiry, Failpoint.SWEEP_LEASE_FAILED),
    )


def due_managed_deployments(system: System) -> DueRows:
    """Return the work that adds VMs to, or removes VMs from, deployments of the wrong size."""
    return DueRows(
        "reconcile_deployments",
        2.0,
        system,
        due_deployments,
        ("deployment_id", "user_id"),
        (reconciliation.reconcile_if_due, Failpoint.SWEEP_MANAGED),
        (reconciliation.put_off_resizing, Failpoint.SWEEP_MANAGED_FAILED),
    )


DUE_ROWS: tuple[Callable[[System], DueRows], ...] = (
    due_snapshot_policies,
    due_vm_schedules,
    due_vm_leases,
    due_managed_deployments,
)
"""Functions that return the kinds of rows that the sweeper handles when they are due."""


@dataclass(frozen=True, slots=True)
class SnapshotRetention:
    """Deletes snapshots beyond the number that their policies keep."""

    system: System

    def delete_surplus(self) -> None:
        """Create the jobs that delete snapshots beyond the number that their policies keep."""
        with read_only(self.system.engine) as connection:
            surplus = surplus_snapshots(connection, AT_ONCE)
        for snapshot in surplus:
            delete = partial(snapshot_policies.delete_surplus_snapshot, system=self.system, snapshot=snapshot)
            try:
                run_transaction(self.system.engine, delete, Failpoint.SWEEP_RETENTION)
            except BulkDeployError as error:
                log.info("snapshot_kept", snapshot=str(snapshot.uuid), why=str(error))


@dataclass(frozen=True, slots=True)
class ClusterDrs:
    """Balances the clusters for which ``drs.automatic.enable`` is true, at their interval."""

    system: System

    def balance_clusters(self) -> None:
        """Create the migration jobs of clusters that are due.

        A cluster is balanced once per interval, even if several sweepers run.
        """
        with read_only(self.system.engine) as connection:
            due = cluster_drs.enabled_clusters(connection)
        for cluster, zone_id in due:
            work = partial(cluster_drs.balance_if_due, system=self.system, cluster=cluster, zone_id=zone_id)
            if run_transaction(self.system.engine, work, Failpoint.SWEEP_BALANCE):
                log.info("cluster_balanced", cluster=cluster.name)
