"""Out-of-band management: configured, enabled at three levels, used and watched; hosts lose their power."""

from typing import Any

import pytest

from bulkdeploy.drivers.simulator.control import break_controller, cut_off, repair_controller
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.power_calls import PowerCalls
from bulkdeploy.provisioning.watches.power_watch import PowerWatch
from bulkdeploy.wiring.cipher import FernetCipher
from tests.commands.availability.controlled_hosts import alerts, configured, enable, hypervisor, system
from tests.commands.infrastructure.test_host_maintenance import VMS, _finish, _on, host
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, CUSTOMERS_ADMIN, refused
from tests.support.power.redfish_servers import PASSWORD, USER, Server, redfish
from tests.support.processes.deaths import dies_at
from tests.support.zones.fleet import Fleet, OneDriver

__all__ = ["host", "hypervisor", "system"]


@pytest.fixture
def watch(fleet: Fleet, cipher: FernetCipher) -> PowerWatch:
    """The sweeper's look at power states; every controller is due."""
    fleet.set_value("outofbandmanagement.action.timeout", 5)
    return PowerWatch(fleet.engine, PowerCalls(fleet.power, cipher.decrypt))


def act(fleet: Fleet, client: ApiClient, host: str, action: str) -> dict[str, Any]:
    """Have an action done; its job."""
    job = client.call("issueOutOfBandManagementPowerAction", hostid=host, action=action)["jobid"]
    fleet.run()
    return dict(client.call("queryAsyncJobResult", jobid=job))


def shown(client: ApiClient, host: str) -> dict[str, Any]:
    """What listHosts shows."""
    return dict(client.call("listHosts", id=host)["host"][0]["outofbandmanagement"])


def look(fleet: Fleet, watch: PowerWatch) -> None:
    """Read all power states."""
    fleet.zone.change("UPDATE bmcs SET looked = NULL")
    watch.read_power_states()


def test_a_controller_is_configured_shown_and_used(fleet: Fleet, client: ApiClient, host: str) -> None:
    """The password is encrypted at rest and shown nowhere; actions switch the host, and its guests with it."""
    assert shown(client, host) == {"enabled": False, "powerstate": "Disabled"}
    answer = client.call("configureOutOfBandManagement", **configured(host))["outofbandmanagement"]
    expected = {"driver": "simulator", "address": "10.9.0.5", "port": "623", "username": USER}
    assert {**answer, **expected} == answer
    assert (answer["hostid"], answer["enabled"], answer["status"]) == (host, False, True)
    job = client.call("enableOutOfBandManagementForHost", hostid=host)["jobid"]
    done = client.call("queryAsyncJobResult", jobid=job)["jobresult"]["outofbandmanagement"]
    assert done == {"hostid": host, "enabled": True, "status": True}
    assert shown(client, host) == {**expected, "enabled": True, "powerstate": "Disabled"}
    for action, state in (("STATUS", "On"), ("OFF", "Off"), ("STATUS", "Off"), ("ON", "On"), ("CYCLE", "On")):
        result = act(fleet, client, host, action)["jobresult"]["outofbandmanagement"]
        assert (result["powerstate"], result["action"], result["hostid"]) == (state, action, host)
        assert shown(client, host)["powerstate"] == state
    assert len(fleet.guests()) == 0
    events = client.call("listEvents", listall=True, resourceid=host)["event"]
    types = {event["type"] for event in events}
    assert types >= {"HOST.OOBM.CONFIGURE", "HOST.OOBM.ENABLE", "HOST.OOBM.ACTION"}
    stored = fleet.zone.rows("SELECT t.* FROM bmcs t"), events, fleet.zone.rows("SELECT params FROM async_jobs")
    assert PASSWORD not in str(stored) + str(shown(client, host)) + str(answer)
    for filters, number in (
        ({"outofbandmanagementenabled": True}, 1),
        ({"outofbandmanagementpowerstate": "on"}, 1),
        ({"outofbandmanagementpowerstate": "Off"}, 0),
    ):
        assert client.call("listHosts", **filters).get("count", 0) == number, filters


def test_three_levels_are_enabled_each_by_itself(
    fleet: Fleet, client: ApiClient, host: str, watch: PowerWatch
) -> None:
    """A host's controller is used if host, cluster and zone use theirs; power states of others are Disabled."""
    place = client.call("listHosts", id=host)["host"][0]
    enable(client, host)
    look(fleet, watch)
    assert shown(client, host)["powerstate"] == "On"
    levels = (("Zone", "zoneid"), ("Cluster", "clusterid"), ("Host", "hostid"))
    ids = {"zoneid": place["zoneid"], "clusterid": place["clusterid"], "hostid": host}
    for level, parameter in levels:
        client.call(f"disableOutOfBandManagementFor{level}", **{parameter: ids[parameter]})
    for level, parameter in levels:
        look(fleet, watch)
        assert shown(client, host)["powerstate"] == "Disabled"
        said = refused(client, "issueOutOfBandManagementPowerAction", hostid=host, action="STATUS")
        assert (said.status, level.lower() in said.errortext) == (431, True), said
        client.call(f"enableOutOfBandManagementFor{level}", **{parameter: ids[parameter]})
    assert act(fleet, client, host, "STATUS")["jobresult"]["outofbandmanagement"]["powerstate"] == "On"


def test_what_is_refused_changes_nothing(fleet: Fleet, client: ApiClient, host: str) -> None:
    """Unknown drivers and actions, addresses that are options, and hosts without a controller answer 431."""
    for wrong in (
        {"driver": "randomDriverThatDoesNotExist"},
        {"address": "-oProxyCommand=x"},
        {"address": "10.0.0.1; reboot"},
        {"port": 0},
        {"port": "6x"},
        {"username": "a b"},
        {"password": ""},
    ):
        said = refused(client, "configureOutOfBandManagement", **configured(host, **wrong))
        assert said.status == 431, (wrong, said)
    for command, given in (
        ("enableOutOfBandManagementForHost", {"hostid": host}),
        ("enableOutOfBandManagementForHost", {"hostid": -1}),
        ("disableOutOfBandManagementForZone", {}),
        ("issueOutOfBandManagementPowerAction", {"hostid": host, "action": "STATUS"}),
        ("issueOutOfBandManagementPowerAction", {"hostid": host, "action": "EXPLODE"}),
        ("changeOutOfBandManagementPassword", {"hostid": host, "password": "x"}),
    ):
        assert refused(client, command, **given).status == 431, command
    assert fleet.zone.scalar("SELECT count(*) FROM bmcs") == 0
    assert fleet.zone.scalar("SELECT count(*) FROM async_jobs WHERE kind ~ 'power'") == 0


@pytest.mark.usefixtures("fleet")
def test_only_root_admins_manage_hosts_out_of_band(client: ApiClient, host: str) -> None:
    """Other admins and users do not know the commands, and see no controller."""
    for keys in (ACME, CUSTOMERS_ADMIN):
        other = ApiClient(client.url, *keys)
        assert refused(other, "configureOutOfBandManagement", **configured(host)).status == 432


def test_a_silent_controller_is_unknown_and_raises_one_alert(
    fleet: Fleet, client: ApiClient, host: str, watch: PowerWatch
) -> None:
    """However often sweepers look; once it answers and falls silent again, there is another alert."""
    enable(client, host)
    for silences in (1, 2):
        look(fleet, watch)
        assert shown(client, host)["powerstate"] == "On"
        break_controller(fleet.control, "a-1-1")
        for _ in range(3):
            look(fleet, watch)
        assert shown(client, host)["powerstate"] == "Unknown"
        assert [kind for kind, text in alerts(client) if "power state of host a-1-1 is Unknown" in text] == [
            7
        ] * silences
        failed = act(fleet, client, host, "STATUS")
        assert (failed["jobstatus"], "no route" in failed["jobresult"]["errortext"]) == (2, True)
        repair_controller(fleet.control, "a-1-1")


def test_a_wrong_password_raises_an_alert_of_its_own(
    fleet: Fleet, client: ApiClient, host: str, watch: PowerWatch
) -> None:
    """A real controller, with Redfish: the alert says auth-error, and configuring the right one ends it."""
    with redfish({"node1": Server()}) as port:
        given = {"driver": "redfish", "address": "127.0.0.1", "port": port}
        enable(client, host, **given, password="wr0ngsecret")
        look(fleet, watch)
        assert [(kind, "auth-error" in text) for kind, text in alerts(client)] == [(29, True)]
        assert "wr0ngsecret" not in alerts(client)[0][1]
        client.call("configureOutOfBandManagement", **configured(host, **given))
        look(fleet, watch)
        assert shown(client, host)["powerstate"] == "On"
        said = refused(client, "changeOutOfBandManagementPassword", hostid=host, password="x")
        assert (said.status, "cannot change passwords" in said.errortext) == (431, True)


def test_a_password_is_changed_here_and_there(fleet: Fleet, client: ApiClient, host: str) -> None:
    """The controller has it first; without one in the call a random one is made. Neither is readable at rest."""
    enable(client, host)
    before = fleet.zone.scalar("SELECT password_encrypted FROM bmcs")
    for password in ({"password": "Password12345"}, {}):
        job = client.call("changeOutOfBandManagementPassword", hostid=host, **password)["jobid"]
        fleet.run()
        result = client.call("queryAsyncJobResult", jobid=job)["jobresult"]["outofbandmanagement"]
        assert result == {"hostid": host, "status": True}
        after = fleet.zone.scalar("SELECT password_encrypted FROM bmcs")
        assert before != after
        before = after
    assert len(fleet.system.cipher.decrypt(bytes(before))) == 16
    assert "Password12345" not in str(fleet.zone.rows("SELECT params, result FROM async_jobs"))


def test_a_reset_is_requested_once(fleet: Fleet, client: ApiClient, host: str) -> None:
    """A worker dies right after the controller was asked: the one that takes over does not reset the host again."""
    servers = {"node1": Server()}
    with redfish(servers) as port:
        enable(client, host, driver="redfish", address="127.0.0.1", port=port)
        job = client.call("issueOutOfBandManagementPowerAction", hostid=host, action="RESET")["jobid"]
        _die_at(f"{Failpoint.POWER_ACTION}.after", fleet)
        fleet.run()
        answer = client.call("queryAsyncJobResult", jobid=job)
    assert servers["node1"].requests == ["ForceRestart"]
    assert (answer["jobstatus"], "is not repeated" in answer["jobresult"]["errortext"]) == (2, True)


def _die_at(place: str, fleet: Fleet, drivers: OneDriver | None = None) -> None:
    """Run all jobs, and let the first one that comes to a place end there; its lease is over afterwards."""
    with dies_at(place, times=None, end=RuntimeError):
        fleet.run(drivers=drivers)
    fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")


def test_evacuation_switches_the_host_off_first(
    fleet: Fleet, client: ApiClient, host: str, hypervisor: OneDriver
) -> None:
    """No force is needed where a controller can fence; the VMs start elsewhere once it reports Off."""
    assert refused(client, "evacuateHost", id=host).status == 431
    enable(client, host)
    cut_off(fleet.control, "a-1-1")
    job = client.call("evacuateHost", id=host)["jobid"]
    fleet.run(drivers=hypervisor)
    assert fleet.zone.scalar("SELECT fenced IS NOT NULL FROM hosts WHERE name = 'a-1-1'")
    assert fleet.control.execute("SELECT is_off FROM simulator.hosts WHERE name = 'a-1-1'").fetchone() == (True,)
    result = _finish(fleet, client, job)["jobresult"]["hostmigration"]
    assert (len(result["moved"]), result.get("failed", [])) == (VMS, [])
    assert (len(fleet.guests()), _on(fleet, host)) == (VMS, 0)
    fleet.assert_intact()


@pytest.mark.parametrize("fault", ["silent", "lies", "ignores", "another host's"])
def test_nothing_starts_elsewhere_unless_the_host_is_off(
    fleet: Fleet, client: ApiClient, host: str, hypervisor: OneDriver, fault: str
) -> None:
    """A controller is silent, reports neither On nor Off, does nothing, or is that of another host."""
    fleet.set_value("kvm.ha.fence.timeout", 1)
    server = Server(lies="PoweringOff" if fault == "lies" else None, ignores=fault == "ignores")
    with redfish({"node1": server}) as port:
        enable(client, host, driver="redfish", address="127.0.0.1", port=1 if fault == "silent" else port)
        if fault != "another host's":
            cut_off(fleet.control, "a-1-1")
        job = client.call("evacuateHost", id=host, force=True)["jobid"]
        for _ in range(2):
            fleet.run(drivers=hypervisor)
            fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
        assert not fleet.zone.scalar("SELECT fenced IS NOT NULL FROM hosts WHERE name = 'a-1-1'")
        assert (len(fleet.guests()), _on(fleet, host)) == (VMS, VMS)
        said = [text for _, text in alerts(client) if "could not be fenced" in text]
        assert (len(said), "cut its power by hand" in said[0]) == (1, True)
        fleet.zone.change("UPDATE async_jobs SET started = now() - interval '61 minutes' WHERE status = 0")
        fleet.sweeper().end_late()
        fleet.run(drivers=hypervisor)
        answer = client.call("queryAsyncJobResult", jobid=job)
    assert answer["jobstatus"] == 2, answer
    assert ("may be that of another host" in said[0]) is (fault == "another host's")
    assert len(fleet.guests()) == VMS
