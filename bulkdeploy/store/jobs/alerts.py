"""Rows of alerts: written by any part of the service, listed and archived by root admins."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select, update

from bulkdeploy.domain.alerts import Alert
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, by_ids, filtered, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.jobs import alerts


def record_alerts(connection: Connection, noticed: Sequence[Alert]) -> None:
    """Insert alerts in the transaction of the changes that they describe."""
    rows = [
        {"alert_type": one.type.number, "name": one.type.wire_name, "description": one.description}
        for one in noticed
    ]
    if rows:
        connection.execute(insert(alerts), rows)


def list_alerts(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of alerts that were not archived, newest first."""
    alert = alerts.c
    query = (
        select(
            alert.uuid.label("id"),
            alert.alert_type.label("type"),
            alert.name,
            alert.description,
            alert.created.label("sent"),
        )
        .where(alert.archived.is_(False))
        .order_by(alert.id.desc())
    )
    return fetch_page(connection, filtered(query, _filters(), arguments), paging)


def archive_alerts(connection: Connection, arguments: Arguments) -> None:
    """Archive the alerts that match the arguments ``ids``, ``type``, ``startdate`` and ``enddate``."""
    chosen = filtered(select(alerts.c.id), _choices(), arguments)
    connection.execute(update(alerts).where(alerts.c.id.in_(chosen)).values(archived=True))


def delete_alerts(connection: Connection, arguments: Arguments) -> None:
    """Delete the alerts that match the arguments ``ids``, ``type``, ``startdate`` and ``enddate``."""
    chosen = filtered(select(alerts.c.id), _choices(), arguments)
    connection.execute(delete(alerts).where(alerts.c.id.in_(chosen)))


def _filters() -> Filters:
    alert = alerts.c
    return {
        "id": by_id(alert.id),
        "name": same_text(alert.name),
        "type": alert.alert_type.__eq__,
        "keyword": keyword(alert.name, alert.description),
    }


def _choices() -> Filters:
    alert = alerts.c
    return {
        "ids": by_ids(alert.id),
        "type": alert.alert_type.__eq__,
        "startdate": alert.created.__ge__,
        "enddate": alert.created.__le__,
    }
