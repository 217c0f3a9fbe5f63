"""Deployments from templates with passwords: each guest gets one, and only readers of its job see it."""

from typing import Any

import pytest

from bulkdeploy.drivers.guests import GuestSpec
from tests.support.api.api_client import ApiClient
from tests.support.zones.fleet import Fleet, OneDriver


class PasswordsSeen:
    """The given driver; remembers the password that each guest starts with."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self.passwords: dict[str, str | None] = {}

    def ensure_running(self, host: Any, guest: GuestSpec, **named: Any) -> None:
        """Remember it."""
        self.passwords[str(guest.uuid)] = guest.password
        self._driver.ensure_running(host, guest, **named)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the driver's."""
        return getattr(self._driver, name)


@pytest.mark.parametrize("command", ["deployVirtualMachine", "bulkDeployVirtualMachine"])
def test_the_result_of_a_deployment_has_the_guests_password(fleet: Fleet, client: ApiClient, command: str) -> None:
    """Every guest starts with a password of its own; the job's result tells it, and no list and no row does."""
    fleet.zone.change("UPDATE templates SET password_enabled = true")
    count = 3 if command.startswith("bulk") else 1
    parameters = fleet.zone.bulk_parameters(count)
    if count == 1:
        del parameters["virtualmachinecount"]
    answer = client.call(command, **parameters)
    seen = PasswordsSeen(fleet.driver)
    fleet.run(drivers=OneDriver(seen))
    passwords = {}
    for job in answer.get("asyncjobs", [answer]):
        vm = client.call("queryAsyncJobResult", jobid=job["jobid"])["jobresult"]["virtualmachine"]
        assert "encryptedpassword" not in vm
        passwords[vm["id"]] = vm["password"]
    assert passwords == seen.passwords
    assert len(set(passwords.values())) == count
    shown = str(client.call("listAsyncJobs", listall=True)) + str(client.call("listVirtualMachines", listall=True))
    rows = str(fleet.zone.rows("SELECT * FROM virtual_machines")) + str(fleet.zone.rows("SELECT * FROM async_jobs"))
    assert not any(password in shown + rows for password in passwords.values())


def test_templates_without_passwords_give_none(fleet: Fleet, client: ApiClient) -> None:
    """The guest keeps what its image has."""
    fleet.zone.change("UPDATE templates SET password_enabled = false")
    answer = client.call("bulkDeployVirtualMachine", **fleet.zone.bulk_parameters(1))
    fleet.run()
    job = client.call("queryAsyncJobResult", jobid=answer["asyncjobs"][0]["jobid"])
    assert "password" not in job["jobresult"]["virtualmachine"]
