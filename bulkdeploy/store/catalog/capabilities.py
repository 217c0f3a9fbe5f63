"""The facts about the installation that listCapabilities needs."""

from sqlalchemy import Connection, exists, select

from bulkdeploy.store.tables.topology import zones


def any_zone_has_security_groups(connection: Connection) -> bool:
    """Return whether any live zone has security groups enabled."""
    query = select(exists().where(zones.c.security_groups_enabled, zones.c.removed.is_(None)))
    return bool(connection.execute(query).scalar_one())
