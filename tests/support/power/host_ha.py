"""Host HA that decides within seconds, for hosts behind one Redfish controller of a test."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.support.api.api_client import ApiClient
from tests.support.power.redfish_servers import PASSWORD, USER, Server, redfish
from tests.support.runs.waiting import wait_for

QUICK = {
    "host.down.wait": 5,
    "host.up.wait": 1,
    "kvm.ha.activity.check.interval": 3,
    "kvm.ha.activity.check.max.attempts": 2,
    "kvm.ha.activity.check.timeout": 30,
    "kvm.ha.recover.failure.threshold": 0,
    "kvm.ha.fence.timeout": 10,
    "outofbandmanagement.action.timeout": 5,
}
"""Settings with which a dead host is fenced after about ten seconds, without a reset."""
LOGIN = {"driver": "redfish", "username": USER, "password": PASSWORD}


@contextmanager
def host_ha(client: ApiClient, servers: Mapping[str, Server]) -> Iterator[int]:
    """Connect the hosts of these names to a controller, and enable host HA for them; yields the controller's port.

    Host HA is disabled at the end.
    """
    for name, value in QUICK.items():
        client.call("updateConfiguration", name=name, value=value)
    hosts = [host for host in client.call("listHosts", type="Routing")["host"] if host["name"] in servers]
    with redfish(servers) as port:
        for host in hosts:
            where = {"address": f"127.0.0.1/{host['name']}", "port": port}
            client.call("configureOutOfBandManagement", hostid=host["id"], **LOGIN, **where)
            finish(client, "enableOutOfBandManagementForHost", hostid=host["id"])
            finish(client, "configureHAForHost", hostid=host["id"], provider="kvmhaprovider")
            finish(client, "enableHAForHost", hostid=host["id"])
        wait_for(
            lambda: {ha_state(client, host["name"]) for host in hosts} == {"Available"},
            "host HA of all hosts begins",
        )
        yield port
        for host in hosts:
            finish(client, "disableHAForHost", hostid=host["id"])


def host_named(client: ApiClient, name: str) -> dict[str, Any]:
    """Return a host as the API lists it."""
    (found,) = client.call("listHosts", name=name, type="Routing")["host"]
    return dict(found)


def ha_state(client: ApiClient, name: str) -> str:
    """Return the state of a host's high availability."""
    return str(host_named(client, name)["hostha"]["hastate"])


def take_back(client: ApiClient, name: str) -> None:
    """Switch a fenced host on by its controller, and let it take virtual machines again."""
    host = host_named(client, name)["id"]
    finish(client, "issueOutOfBandManagementPowerAction", hostid=host, action="ON")
    client.call("reconnectHost", id=host)
    finish(client, "cancelHostMaintenance", id=host)
    wait_for(lambda: bool(host_named(client, name)["state"] == "Up"), f"host {name} is taken back")


def finish(client: ApiClient, command: str, **parameters: object) -> dict[str, Any]:
    """Call an asynchronous command, wait for the end of its job, and return the result; the job succeeds."""
    job, ended = client.call(command, **parameters)["jobid"], dict[str, Any]()

    def has_ended() -> bool:
        ended.update(client.call("queryAsyncJobResult", jobid=job))
        return bool(ended["jobstatus"])

    wait_for(has_ended, f"the job of {command} ends")
    assert ended["jobstatus"] == 1, ended
    return dict(ended["jobresult"])
