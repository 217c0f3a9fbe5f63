"""Stage of a deployment: assigns an address to each NIC, for all calls together."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from sqlalchemy import Connection

from bulkdeploy.domain.errors import InsufficientAddresses
from bulkdeploy.domain.networks.guest_networks import GuestType
from bulkdeploy.scheduling.nics import take_address
from bulkdeploy.services.deployments.deploying_calls import DeployingCall, FewerVms, Refusals
from bulkdeploy.services.deployments.list_entries import entry_of
from bulkdeploy.store.deployments.new_vms import CallPart
from bulkdeploy.store.ledger.addresses import Address, lock_ranges, take_addresses


def give_addresses(connection: Connection, calls: Sequence[DeployingCall], refusals: Refusals) -> None:
    """Assign each VM an address in each network that has addresses.

    The address is the one that the call names, or else a free address of the network.

    Raises:
        InsufficientAddresses: a network has too few free addresses.
        FewerVms: a network has too few free addresses, and the call accepts fewer VMs.
        InvalidParameter: a requested address is in use, or does not belong to the network.
        MustRunAlone: some of several calls must be rejected.
    """
    networks = {network.id for each in calls for part in each.parts for network in part.spec.networks}
    if len(networks) > 1:
        lock_ranges(connection, sorted(networks))
    free = _take_free(connection, calls)
    for number, each in enumerate(calls):
        with refusals.of(number):
            for part in each.parts:
                with entry_of(each.call, part.spec.request):
                    part.addresses = _addresses(connection, part, free)
    refusals.check()


def _take_free(connection: Connection, calls: Sequence[DeployingCall]) -> dict[int, Iterator[Address]]:
    """Return, for each network, a free address for each VM to which the call gives no address in the network."""
    names: dict[int, str] = {}
    pods: dict[int, list[int | None]] = defaultdict(list)
    wanting: dict[int, list[tuple[DeployingCall, CallPart]]] = defaultdict(list)
    for each in calls:
        for part in each.parts:
            for position, network in enumerate(part.spec.networks):
                named = part.spec.request.nic_in(position, network.id).ip_address
                if network.guest_type != GuestType.L2 and named is None:
                    names[network.id] = network.name
                    pods[network.id] += _pods_of(part)
                    wanting[network.id].append((each, part))
    taken = {}
    for network_id in sorted(names):
        try:
            taken[network_id] = iter(take_addresses(connection, network_id, names[network_id], pods[network_id]))
        except InsufficientAddresses as error:
            raise _without_address(wanting[network_id], error) from error
    return taken


def _pods_of(part: CallPart) -> list[int | None]:
    """Return the pod of each VM. If the VMs are not placed yet, this is the pod that the call names, or None."""
    if part.plan is None:
        return [part.spec.request.pod_id] * part.count
    return list(part.plan.pod_ids.tolist())


def _addresses(
    connection: Connection, part: CallPart, free: Mapping[int, Iterator[Address]]
) -> list[list[Address] | None]:
    """Return the addresses of the alike VMs ``part``, one list per network, and remove them from ``free``.

    An address that the request names is reserved. The list of a network without addresses, such as an L2 network,
    is None.
    """
    columns: list[list[Address] | None] = []
    for position, network in enumerate(part.spec.networks):
        named = part.spec.request.nic_in(position, network.id)
        if named.ip_address is not None:
            address = take_address(connection, network, named.ip_address, parameter=named.ip_parameter)
            columns.append(None if address is None else [address])
        elif network.id in free:
            columns.append(list(islice(free[network.id], part.count)))
        else:
            columns.append(None)
    return columns


def _without_address(wanting: Sequence[tuple[DeployingCall, CallPart]], error: InsufficientAddresses) -> Exception:
    """Return the exception that leaves out the last VMs, or the error if the call must not leave them out."""
    call = wanting[0][0].call
    if call.fewest == call.count or (call.shared.minimum_count is not None and error.free < call.fewest):
        return error
    numbers = np.sort(np.concatenate([part.numbers for _, part in wanting]))
    left_out = numbers[len(numbers) - (error.requested - error.free) :]
    if call.partial and len(left_out) == wanting[0][0].count:
        return error
    return FewerVms(left_out, error)
