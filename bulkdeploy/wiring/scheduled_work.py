"""The sweeper's work that services do: snapshots of policies, schedules of VMs, balance of clusters.

Every pass may be run by several processes at once and may die at any line: each step is one transaction.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import structlog

from bulkdeploy.commands.deployments import managed_deployments
from bulkdeploy.domain.errors import BulkDeployError
from bulkdeploy.failpoints import Failpoint
from bulkdeploy.services.infrastructure import cluster_drs
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines import scheduled_operations
from bulkdeploy.services.volumes import snapshot_policies
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.deployments.managed_deployments import due_deployments
from bulkdeploy.store.virtual_machines.vm_schedules import due_schedules
from bulkdeploy.store.volumes.snapshot_policies import due_policies, surplus_snapshots

log = structlog.get_logger(__name__)

AT_ONCE = 500
"""The most policies, surplus snapshots and schedules that one pass handles; the next pass handles the rest."""

Work: TypeAlias = tuple[Callable[..., None], Failpoint]
"""What is done in a transaction, and the failpoint of its commit."""


def _handle_due(system: System, due: Iterable[Mapping[str, Any]], handle: Work, give_up: Work) -> None:
    """Handle each due row in a transaction; for one that fails, undo it and give up its occurrence in another.

    Both lock the row and leave it alone if it is not due any more: each occurrence is handled once, whatever
    processes run or die.
    """
    work, point = handle
    excuse, excuse_point = give_up
    for row in due:
        try:
            run_transaction(system.engine, partial(work, system=system, **row), point)
        except BulkDeployError as error:
            run_transaction(system.engine, partial(excuse, system=system, why=str(error), **row), excuse_point)


@dataclass(frozen=True, slots=True)
class SnapshotPolicies:
    """Takes snapshots of policies that are due, and deletes those that are no longer kept."""

    system: System

    def take_snapshots(self) -> None:
        """Make the jobs of all snapshots that are due."""
        with read_only(self.system.engine) as connection:
            due = due_policies(connection, AT_ONCE)
        _handle_due(
            self.system,
            [{"policy_id": policy_id, "volume_id": volume_id} for policy_id, volume_id in due],
            (snapshot_policies.take_snapshot, Failpoint.SWEEP_POLICIES),
            (snapshot_policies.postpone_snapshot, Failpoint.SWEEP_POLICY_FAILED),
        )

    def delete_surplus(self) -> None:
        """Make the jobs that delete snapshots beyond the number that their policies keep."""
        with read_only(self.system.engine) as connection:
            surplus = surplus_snapshots(connection, AT_ONCE)
        for snapshot in surplus:
            delete = partial(snapshot_policies.delete_surplus_snapshot, system=self.system, snapshot=snapshot)
            try:
                run_transaction(self.system.engine, delete, Failpoint.SWEEP_RETENTION)
            except BulkDeployError as error:
                log.info("snapshot_kept", snapshot=str(snapshot.uuid), why=str(error))


@dataclass(frozen=True, slots=True)
class VmSchedules:
    """Starts the bulk operations of schedules that are due."""

    system: System

    def run_schedules(self) -> None:
        """Make the jobs of all occurrences that are due."""
        with read_only(self.system.engine) as connection:
            due = due_schedules(connection, AT_ONCE)
        _handle_due(
            self.system,
            [{"schedule_id": schedule_id, "vm_id": vm_id} for schedule_id, vm_id in due],
            (scheduled_operations.run_schedule, Failpoint.SWEEP_SCHEDULES),
            (scheduled_operations.skip_occurrence, Failpoint.SWEEP_SCHEDULE_FAILED),
        )


@dataclass(frozen=True, slots=True)
class ManagedDeployments:
    """Adds and removes VMs of deployments that do not have their desired size."""

    system: System

    def reconcile_deployments(self) -> None:
        """Begin to give all deployments that are due their desired size, each in a transaction of its own."""
        with read_only(self.system.engine) as connection:
            due = due_deployments(connection, AT_ONCE)
        _handle_due(
            self.system,
            [{"deployment_id": deployment_id, "user_id": user_id} for deployment_id, user_id in due],
            (managed_deployments.reconcile_if_due, Failpoint.SWEEP_MANAGED),
            (managed_deployments.put_off_resizing, Failpoint.SWEEP_MANAGED_FAILED),
        )


@dataclass(frozen=True, slots=True)
class ClusterDrs:
    """Balances clusters for which ``drs.automatic.enable`` is true at their interval."""

    system: System

    def balance_clusters(self) -> None:
        """Make the jobs of clusters that are due, one for each cluster however many sweepers there are."""
        with read_only(self.system.engine) as connection:
            due = cluster_drs.enabled_clusters(connection)
        for cluster, zone_id in due:
            work = partial(cluster_drs.balance_if_due, system=self.system, cluster=cluster, zone_id=zone_id)
            if run_transaction(self.system.engine, work, Failpoint.SWEEP_BALANCE):
                log.info("cluster_balanced", cluster=cluster.name)
