"""Alerts: listed, archived and deleted by root admins, as CloudStack does it."""

from bulkdeploy.domain.alerts import Alert, AlertType
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.jobs.alerts import record_alerts
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, refused
from tests.support.zones.fleet import Fleet


def _shown(client: ApiClient, **which: object) -> list[str]:
    return [row["description"] for row in client.call("listAlerts", **which).get("alert", [])]


def test_alerts_are_listed_archived_and_deleted(fleet: Fleet, client: ApiClient, api_url: str) -> None:
    """Newest first, by type and name; archived ones are not shown, and still can be deleted."""
    noticed = [
        Alert(AlertType.HOST, "host one"),
        Alert(AlertType.HOST, "host two"),
        Alert(AlertType.USER_VM, "a virtual machine"),
    ]
    run_transaction(fleet.engine, lambda connection: record_alerts(connection, noticed))
    assert _shown(client) == ["a virtual machine", "host two", "host one"]
    first = client.call("listAlerts", type=7)["alert"][0]
    assert {name: first[name] for name in ("type", "name", "description")} == {
        "type": 7,
        "name": "ALERT.COMPUTE.HOST",
        "description": "host two",
    }
    assert _shown(client, name="ALERT.USERVM") == _shown(client, keyword="virtual") == ["a virtual machine"]
    assert client.call("archiveAlerts", ids=first["id"])["success"]
    assert _shown(client) == ["a virtual machine", "host one"]
    assert client.call("deleteAlerts", type=7)["success"]
    assert _shown(client) == ["a virtual machine"]
    assert fleet.zone.scalar("SELECT count(*) FROM alerts") == 1
    assert refused(client, "deleteAlerts").status == 431
    assert refused(ApiClient(api_url, *ACME), "listAlerts").status == 432
