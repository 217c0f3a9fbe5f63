"""All tables of the database. Importing this module registers them in ``metadata``."""

from bulkdeploy.store.tables import (
    accounts,
    groups,
    hypervisors,
    image_stores,
    jobs,
    ledger,
    managed_deployments,
    networks,
    offerings,
    revisions,
    topology,
    usage,
    virtual_machines,
    vm_schedules,
)
from bulkdeploy.store.tables.schema import metadata

TABLE_MODULES = (
    accounts,
    groups,
    hypervisors,
    image_stores,
    jobs,
    ledger,
    managed_deployments,
    networks,
    offerings,
    revisions,
    topology,
    usage,
    virtual_machines,
    vm_schedules,
)

__all__ = ["TABLE_MODULES", "metadata"]
