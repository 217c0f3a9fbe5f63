"""Periodic work of the sweeper that services do: snapshots, schedules, leases, deployment sizes, balance.

Every pass may be run by several processes at once and may die at any line: each step is one transaction.
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
"""The most policies, surplus snapshots and schedules that one pass handles; the next pass handles the rest."""

Work: TypeAlias = tuple[Callable[..., None], Failpoint]
"""What is done in a transaction, and the failpoint of its commit."""


@dataclass(frozen=True, slots=True)
class DueRows:
    """Rows of one kind that become due at certain times, with the function that processes each of them.

    Attributes:
        name: the sweeper's pass, in logs and metrics.
        every_s: seconds from one look for due rows to the next.
        system: what services work with.
        read: reads the ids of at most so many rows that are due.
        names: the parameters of the work that take these ids.
        work: handles a row; it locks the row and does nothing if the row is not due any more.
        give_up: takes ``why`` as well, and is done in a transaction of its own if the work was rejected.
    """

    name: str
    every_s: float
    system: System
    read: Callable[[Connection, int], Iterable[tuple[Any, ...]]]
    names: tuple[str, ...]
    work: Work
    give_up: Work

    def handle(self) -> None:
        """Handle each row that is due in a transaction; if one is rejected, undo it and give up its occurrence.

        Each occurrence is handled once, whatever processes run or die.
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
    """Return the work that makes the jobs of all snapshots that are due."""
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
    """Return the work that adds and removes VMs of deployments that do not have their desired size."""
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
"""The kinds of rows that the sweeper handles when they are due."""


@dataclass(frozen=True, slots=True)
class SnapshotRetention:
    """Deletes snapshots that their policies no longer keep."""

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
    """Balances clusters for which ``drs.automatic.enable`` is true at their interval."""

    system: System

    def balance_clusters(self) -> None:
        """Create the jobs of clusters that are due, one for each cluster however many sweepers there are."""
        with read_only(self.system.engine) as connection:
            due = cluster_drs.enabled_clusters(connection)
        for cluster, zone_id in due:
            work = partial(cluster_drs.balance_if_due, system=self.system, cluster=cluster, zone_id=zone_id)
            if run_transaction(self.system.engine, work, Failpoint.SWEEP_BALANCE):
                log.info("cluster_balanced", cluster=cluster.name)
