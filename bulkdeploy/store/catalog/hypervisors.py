"""The hypervisors of existing clusters."""

from sqlalchemy import Connection, select

from bulkdeploy.store.tables.topology import clusters


def list_hypervisors(connection: Connection, zone_id: int | None) -> list[dict[str, str]]:
    """Return the hypervisor names of the live clusters in one zone, or in all zones if it is None, sorted."""
    query = select(clusters.c.hypervisor).where(clusters.c.removed.is_(None)).distinct()
    if zone_id is not None:
        query = query.where(clusters.c.zone_id == zone_id)
    return [{"name": name} for name in sorted(connection.execute(query).scalars())]
