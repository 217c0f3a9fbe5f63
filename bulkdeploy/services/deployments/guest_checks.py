"""Rules for health checks of guests: the allowed addresses, and hypervisors with guest agents."""

from collections.abc import Sequence

from sqlalchemy import Connection

from bulkdeploy.domain.deployments.health_checks import HealthCheck
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.drivers.abilities.guest_agents import GuestAgents
from bulkdeploy.services.abilities import find_missing_ability
from bulkdeploy.services.system import System
from bulkdeploy.store.deployments.guest_health import addresses_of_guests, hypervisors_of_vms

NETWORKS_SETTING = "guest_health_networks"


def require_checkable(
    connection: Connection, system: System, check: HealthCheck, vm_ids: Sequence[int], parameter: str, value: object
) -> None:
    """Check that a health check is possible for the guests of these VMs.

    ``parameter`` and ``value`` are the parameter of the request that needs the check; the error names them.

    Raises:
        InvalidParameter: the settings allow no connections to a guest, a VM has no default address, or a
            hypervisor's driver does not support guest agents.
    """
    if check.port is None:
        for hypervisor in hypervisors_of_vms(connection, vm_ids):
            missing = find_missing_ability(system.drivers, hypervisor, GuestAgents)
            if missing is not None:
                raise InvalidParameter(parameter, value, f"the health check is {check}, but {missing}")
        return
    if not system.guest_networks.networks:
        rule = f"health checks by TCP need the setting {NETWORKS_SETTING}, which lists no network"
        raise InvalidParameter(parameter, value, rule)
    for vm in addresses_of_guests(connection, vm_ids):
        if vm.address is None:
            rule = f"the default NIC of virtual machine {vm.name} has no IP address for the health check {check}"
            raise InvalidParameter(parameter, value, rule)
        if not system.guest_networks.contains(vm.address):
            rule = (
                f"the health check {check} must not connect to {vm.address}, the address of virtual machine"
                f" {vm.name}: no network of the setting {NETWORKS_SETTING} contains it, or it is a special address"
            )
            raise InvalidParameter(parameter, value, rule)
