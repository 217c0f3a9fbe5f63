"""deployVirtualMachine iptonetworklist: each nic has the addresses that were asked for, or no VM is made."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.api.callers import ACME, refused
from tests.support.zones.fleet import Fleet


class Named:
    """A fleet with two networks of acme, whose user deploys."""

    def __init__(self, fleet: Fleet, api_url: str) -> None:
        self.fleet, self.client = fleet, ApiClient(api_url, *ACME)
        self.front, self.back = self._network("front", "10.61.0"), self._network("back", "10.62.0")

    def _network(self, name: str, subnet: str, **more: object) -> str:
        zone, offering = self.fleet.zone, "DefaultIsolatedNetworkOfferingWithSourceNatService"
        made = self.client.call(
            "createNetwork",
            name=name,
            zoneid=zone.id_of("zones", "small"),
            networkofferingid=zone.id_of("network_offerings", offering),
            gateway=f"{subnet}.1",
            netmask="255.255.255.0",
            **more,
        )
        return str(made["network"]["id"])

    def requested(self, **more: object) -> dict[str, Any]:
        """Parameters of a deployment."""
        zone = self.fleet.zone
        return {
            "zoneid": zone.id_of("zones", "small"),
            "serviceofferingid": zone.id_of("service_offerings", "Small"),
            "templateid": zone.id_of("templates", "Debian 12"),
            **more,
        }

    def in_networks(self, *nics: dict[str, str]) -> dict[str, str]:
        """``iptonetworklist`` of these entries."""
        return {
            f"iptonetworklist[{at}].{field}": value for at, nic in enumerate(nics) for field, value in nic.items()
        }

    def deployed(self, **more: object) -> list[dict[str, Any]]:
        """The nics of a VM that was deployed and runs, as its job tells them."""
        job = self.client.call("deployVirtualMachine", **self.requested(**more))["jobid"]
        self.fleet.run()
        done = self.client.call("queryAsyncJobResult", jobid=job)
        assert done["jobstatus"] == 1, done
        assert done["jobresult"]["virtualmachine"]["state"] == "Running"
        return list(done["jobresult"]["virtualmachine"]["nic"])


@pytest.fixture
def named(api_url: str, fleet: Fleet) -> Named:
    """See Named."""
    return Named(fleet, api_url)


def test_nics_get_the_addresses_they_request(named: Named) -> None:
    """As Ansible, CAPC and the UI ask: the first entry is the default nic; what is not said is free."""
    first = {"networkid": named.front, "ip": "10.61.0.77", "mac": "02:00:5E:10:00:01"}
    nics = named.deployed(**named.in_networks(first, {"networkid": named.back, "ip": "10.62.0.9"}))
    assert [(nic["networkid"], nic["ipaddress"], nic["isdefault"]) for nic in nics] == [
        (named.front, "10.61.0.77", True),
        (named.back, "10.62.0.9", False),
    ]
    assert nics[0]["macaddress"] == "02:00:5e:10:00:01"
    (only,) = named.deployed(**named.in_networks({"networkid": named.back}))
    assert (only["networkid"], only["isdefault"]) == (named.back, True)
    (mine,) = named.deployed(networkids=named.front, macaddress="02:00:5e:10:00:02", ipaddress="10.61.0.78")
    assert (mine["ipaddress"], mine["macaddress"]) == ("10.61.0.78", "02:00:5e:10:00:02")
    named.fleet.assert_intact()


def test_what_no_nic_can_have_is_refused(named: Named) -> None:
    """Beside other ways of naming networks, addresses in use or outside, MACs of groups; nothing is made."""
    taken = {"networkid": named.front, "ip": "10.61.0.50", "mac": "02:00:5e:10:00:10"}
    named.deployed(**named.in_networks(taken))
    vms = len(named.fleet.vms())
    one, network = named.in_networks({"networkid": named.front}), {"networkid": named.front}
    cases: list[tuple[dict[str, str], str]] = [
        ({**one, "networkids": named.back}, "networkids"),
        ({**one, "ipaddress": "10.61.0.9"}, "ipaddress"),
        ({**one, "macaddress": "02:00:5e:10:00:11"}, "macaddress"),
        (named.in_networks({"ip": "10.61.0.9"}), "networkid"),
        (named.in_networks({**network, "ipv6": "fd00::2"}), "IPv4"),
        (named.in_networks({**network, "colour": "red"}), "colour"),
        (named.in_networks({**network, "ip": "10.61.0.50"}), "in use"),
        (named.in_networks({**network, "ip": "10.62.0.50"}), "outside"),
        (named.in_networks({**network, "ip": "10.61.0.1"}), "iptonetworklist"),
        (named.in_networks({**network, "ip": "x"}), "IPv4"),
        (named.in_networks({**network, "mac": "02:00:5e:10:00:10"}), "another nic has it"),
        (named.in_networks({**network, "mac": "01:00:5e:10:00:12"}), "a unicast MAC address"),
        (named.in_networks({**network, "mac": "02-00"}), "a unicast MAC address"),
        (named.in_networks(network, network), "one nic in a network"),
        (
            named.in_networks(
                {**network, "mac": "02:00:5e:10:00:13"}, {"networkid": named.back, "mac": "02:00:5E:10:00:13"}
            ),
            "another nic of the VM",
        ),
        (named.in_networks({"networkid": "00000000-0000-4000-8000-000000000000"}), "does not exist"),
    ]
    for parameters, reported in cases:
        failure = refused(named.client, "deployVirtualMachine", **named.requested(**parameters))
        assert (failure.status, reported in failure.errortext) == (431, True), failure.errortext
    assert len(named.fleet.vms()) == vms
    named.fleet.assert_intact()


@pytest.mark.parametrize("field", ["ip", "mac"])
def test_four_that_ask_for_one_address_give_it_once(named: Named, field: str) -> None:
    """At the same moment: one VM is made with it, the others are told that it is in use."""
    wanted = {"networkid": named.front, field: "10.61.0.99" if field == "ip" else "02:00:5e:10:00:99"}

    def deploy(_: int) -> int:
        try:
            named.client.call("deployVirtualMachine", **named.requested(**named.in_networks(wanted)))
        except ApiFailure as failure:
            return failure.status
        return 200

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(deploy, range(4))) == [200, 431, 431, 431]
    named.fleet.run()
    assert [vm.state for vm in named.fleet.vms()] == ["Running"]
    named.fleet.assert_intact()
