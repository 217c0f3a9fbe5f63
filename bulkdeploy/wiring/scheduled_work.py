"""The sweeper's work that services do: snapshots of policies, and clusters that are balanced automatically.

Every pass may be run by several processes at once and may die at any line: each step is one transaction.
"""

from dataclasses import dataclass
from functools import partial

import structlog

from bulkdeploy.domain.errors import BulkDeployError
from bulkdeploy.failpoints import Failpoint
from bulkdeploy.services.infrastructure import cluster_drs
from bulkdeploy.services.system import System
from bulkdeploy.services.volumes import snapshot_policies
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.volumes.snapshot_policies import due_policies, surplus_snapshots

log = structlog.get_logger(__name__)

AT_ONCE = 500
"""The most policies and surplus snapshots that one pass handles; the next pass handles the rest."""


@dataclass(frozen=True, slots=True)
class SnapshotPolicies:
    """Takes snapshots of policies that are due, and deletes those that are no longer kept."""

    system: System

    def take_snapshots(self) -> None:
        """Make the jobs of all snapshots that are due."""
        with read_only(self.system.engine) as connection:
            due = due_policies(connection, AT_ONCE)
        for policy_id, volume_id in due:
            take = partial(
                snapshot_policies.take_snapshot, system=self.system, policy_id=policy_id, volume_id=volume_id
            )
            try:
                run_transaction(self.system.engine, take, Failpoint.SWEEP_POLICIES)
            except BulkDeployError as error:
                postpone = partial(
                    snapshot_policies.postpone_snapshot, policy_id=policy_id, volume_id=volume_id, why=str(error)
                )
                run_transaction(self.system.engine, postpone, Failpoint.SWEEP_POLICY_FAILED)

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
