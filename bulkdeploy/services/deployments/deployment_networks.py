"""The networks and security groups of a deployment (cloudstack-protocol.md 5.4)."""

from collections.abc import Sequence

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.deployments.deployment import DeployRequest, NetworkFacts, ZoneFacts
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, PermissionDenied
from bulkdeploy.domain.infrastructure.topology import HypervisorType, NetworkType
from bulkdeploy.scheduling.nics import checked_mac
from bulkdeploy.services.network_creation import create_default_network
from bulkdeploy.store.deployments import deployment_facts as facts
from bulkdeploy.store.networks.network_changes import keep_networks

ISOLATED = "Isolated"
NO_REQUIRED_OFFERING = (
    "Unable to find network offering with availability=Required to automatically create the network as a part of "
    "vm creation; please specify networkids"
)


def choose_networks(
    connection: Connection, caller: Caller, request: DeployRequest, owner: Owner, zone: ZoneFacts
) -> tuple[NetworkFacts, ...]:
    """Return the networks of each VM with the default network first, and lock the networks.

    If the request names no networks, the rules of the zone select one network.

    Raises:
        InvalidParameter, InvalidCombination: the zone does not allow these networks or this number of networks.
        PermissionDenied: the owner may not use a network.
    """
    networks = _choose_networks(connection, caller, request, owner, zone)
    keep_networks(connection, [network.id for network in networks])
    _check_mac_addresses(connection, request)
    return networks


def _check_mac_addresses(connection: Connection, request: DeployRequest) -> None:
    named = [(nic.mac_parameter, nic.mac_address) for nic in request.nics if nic.mac_address is not None]
    checked = [checked_mac(connection, parameter, mac) for parameter, mac in named]
    for position, (parameter, mac) in enumerate(named):
        if checked[position] in checked[:position]:
            raise InvalidParameter(parameter, mac, "another nic of the VM has it")


def _choose_networks(
    connection: Connection, caller: Caller, request: DeployRequest, owner: Owner, zone: ZoneFacts
) -> tuple[NetworkFacts, ...]:
    if zone.network_type is NetworkType.BASIC:
        if request.network_ids:
            raise InvalidCombination(
                (request.networks_parameter, "zoneid"),
                f"Can't specify '{request.networks_parameter}' parameter in basic zone {zone.name}",
            )
        return (_only_network(connection, zone),)
    if request.network_ids:
        return _requested_networks(connection, request, owner, zone)
    if zone.security_groups_enabled:
        return (_security_group_network(connection, owner, zone),)
    return (_default_network(connection, caller, owner, zone),)


def _only_network(connection: Connection, zone: ZoneFacts) -> NetworkFacts:
    """Return the guest network of a Basic zone. Raises InvalidParameter if the zone has no guest network."""
    guest = [n for n in facts.read_networks(connection, zone_id=zone.id) if not n.is_system]
    if not guest:
        raise InvalidParameter("zoneid", zone.name, "the zone has no guest network")
    return guest[0]


def _requested_networks(
    connection: Connection, request: DeployRequest, owner: Owner, zone: ZoneFacts
) -> tuple[NetworkFacts, ...]:
    found = {network.id: network for network in facts.read_networks(connection, ids=request.network_ids)}
    networks: list[NetworkFacts] = []
    for network_id in request.network_ids:
        network = found.get(network_id)
        if network is None:
            shown = request.shown(request.networks_parameter, network_id)
            raise InvalidParameter(request.networks_parameter, shown, f"Unable to find network by id {shown}")
        # first, because further errors are shown only to owners who may use the network
        if not network.is_usable_by(owner):
            raise PermissionDenied(
                f"Account {owner.account_name} does not have permission to use network {network.uuid}"
            )
        if network.is_system:
            raise InvalidParameter(
                request.networks_parameter,
                network.name,
                f"Network id={network.uuid} is system only and can't be used for vm deployment",
            )
        if network.zone_id != zone.id:
            raise InvalidParameter(
                request.networks_parameter,
                network.name,
                f"Network id={network.uuid} doesn't belong to zone {zone.name}",
            )
        if network in networks:
            raise InvalidParameter(request.networks_parameter, network.name, "a VM has one nic in a network")
        networks.append(network)
    if zone.security_groups_enabled:
        if len(networks) > 1:
            raise InvalidCombination(
                (request.networks_parameter,), "Only support one network per VM if security group enabled"
            )
        if not networks[0].has_security_groups:
            raise InvalidParameter(
                request.networks_parameter,
                networks[0].name,
                "the zone requires networks with security groups enabled",
            )
    return tuple(networks)


def _security_group_network(connection: Connection, owner: Owner, zone: ZoneFacts) -> NetworkFacts:
    for network in facts.read_networks(connection, zone_id=zone.id):
        if network.has_security_groups and not network.is_system and network.is_usable_by(owner):
            return network
    raise InvalidParameter("zoneid", zone.name, f"No network with security enabled is found in zone id={zone.uuid}")


def _default_network(connection: Connection, caller: Caller, owner: Owner, zone: ZoneFacts) -> NetworkFacts:
    """Return the network of VMs whose request names none, and create an isolated network if necessary.

    The owner's only isolated network comes first, then the network that the zone file marks as the zone's default,
    then a new isolated network. Other networks that the owner may use are ignored, as in CloudStack.
    """
    chosen = _single_default(owner, _usable_networks(connection, owner, zone))
    if chosen is None and create_default_network(connection, caller, owner, _ref(zone)):
        chosen = _single_default(owner, _usable_networks(connection, owner, zone))
    if chosen is None:
        raise InvalidParameter("networkids", None, NO_REQUIRED_OFFERING)
    return chosen


def _usable_networks(connection: Connection, owner: Owner, zone: ZoneFacts) -> list[NetworkFacts]:
    return [
        n for n in facts.read_networks(connection, zone_id=zone.id) if not n.is_system and n.is_usable_by(owner)
    ]


def _single_default(owner: Owner, usable: Sequence[NetworkFacts]) -> NetworkFacts | None:
    isolated = [
        network for network in usable if network.guest_type == ISOLATED and network.account_id == owner.account_id
    ]
    if len(isolated) > 1:
        raise InvalidParameter(
            "networkids",
            None,
            f"More than 1 default Isolated networks are found for account {owner.account_name}; "
            "please specify networkIds",
        )
    defaults = [network for network in usable if network.is_default]
    return next((choice[0] for choice in (isolated, defaults) if len(choice) == 1), None)


def _ref(zone: ZoneFacts) -> EntityRef:
    return EntityRef(Entity.ZONE, zone.id, zone.uuid, zone.name)


def choose_security_groups(
    connection: Connection,
    request: DeployRequest,
    owner: Owner,
    zone: ZoneFacts,
    networks: tuple[NetworkFacts, ...],
    hypervisor: str,
) -> tuple[int, ...]:
    """Return the internal ids of each VM's security groups. Empty if the network does not support security groups.

    Raises:
        InvalidCombination: groups are given in a zone without security groups, or for VMware.
        InvalidParameter: a group does not exist.
        PermissionDenied: a group belongs to another account.
    """
    requested = request.security_group_ids is not None or request.security_group_names is not None
    enabled = zone.network_type is NetworkType.BASIC or zone.security_groups_enabled
    if requested and not enabled:
        raise InvalidCombination(
            ("securitygroupids" if request.security_group_names is None else "securitygroupnames", "zoneid"),
            f"Can't create VM with security groups; security group feature is not enabled for zone {zone.name}",
        )
    if not networks[0].has_security_groups and not requested:
        return ()
    if hypervisor == HypervisorType.VMWARE:
        if requested:
            raise InvalidCombination(
                ("securitygroupids", "hypervisor"),
                "Security group feature is not supported for vmWare hypervisor",
            )
        return ()
    return requested_security_groups(connection, request, owner)


def requested_security_groups(connection: Connection, request: DeployRequest, owner: Owner) -> tuple[int, ...]:
    """Return the internal ids of the requested security groups, or of the owner's default group if none are.

    Raises:
        InvalidParameter, PermissionDenied: a group does not exist or belongs to another account.
    """
    if request.security_group_names is not None:
        found = facts.read_security_groups(connection, owner, names=request.security_group_names)
        wanted, parameter = {name: name for name in request.security_group_names}, "securitygroupnames"
    else:
        ids = request.security_group_ids or ()
        found = facts.read_security_groups(connection, owner, ids=ids)
        parameter = "securitygroupids"
        wanted = {str(group_id): request.shown(parameter, group_id) for group_id in ids}
    for key, shown in wanted.items():
        if key not in found:
            by = "name" if parameter == "securitygroupnames" else "id"
            raise InvalidParameter(parameter, shown, f"Unable to find group by {by} {shown}")
        if found[key][1] != owner.account_id:
            raise PermissionDenied(
                f"Account {owner.account_name} does not have permission to use security group {shown}"
            )
    if not wanted:
        return (facts.ensure_default_security_group(connection, owner),)
    return tuple(found[key][0] for key in wanted)
