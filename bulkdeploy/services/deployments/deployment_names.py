"""Names of new VMs: requested, built from a prefix, or generated. They are unique in the network's domain."""

import re
from collections.abc import Sequence, Set
from contextlib import nullcontext

from sqlalchemy import Connection

from bulkdeploy.domain.deployments.deployment import DeployRequest, DeploySpec
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.services.deployments.list_entries import named_entry
from bulkdeploy.store.configuration.configurations import Configuration
from bulkdeploy.store.deployments.deployment_facts import names_in_use
from bulkdeploy.store.deployments.new_vms import CallPart

HOST_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
LONGEST_NAME = 63
LONGEST_PREFIX = 40
"""Characters of a name prefix: a number must fit behind it in 63."""


def virtual_machine_names(
    connection: Connection,
    configuration: Configuration,
    part: CallPart,
    given: Set[str],
    *,
    listed: bool,
) -> Sequence[str]:
    """Return one host name for each VM of the part.

    A VM without a name or prefix is called ``<instance.name>-<uuid>`` (cloudstack-protocol.md 5.7). With a prefix,
    the names are ``<prefix>-1``, ``<prefix>-2`` and so on; names that are already used in the networks are skipped.

    Args:
        connection: has the open transaction that writes the VMs.
        configuration: contains ``instance.name``.
        part: the VMs.
        given: names, in lower case, that other VMs get in the same transaction.
        listed: whether the call has a list, so that errors name the entry.

    Raises:
        InvalidParameter: a requested name is already used in the network's domain, or is in ``given``.
    """
    spec, named = part.spec, part.named
    networks = [network.id for network in spec.networks]
    if spec.request.name_prefix is not None:
        return _first_free(connection, spec.request.name_prefix, networks, part.count, given)
    wanted = [vm for vm in named if vm.name is not None]
    taken = names_in_use(connection, [vm.name or "" for vm in wanted], networks) | given if wanted else given
    for vm in wanted:
        if vm.name is not None and vm.name.lower() in taken:
            with named_entry(vm.entry) if listed else nullcontext():
                raise _taken(spec, vm.name)
    prefix = configuration.text("instance.name")
    generated = [f"{prefix}-{uuid}" for uuid in part.uuids]
    if not wanted:
        return generated
    return [vm.name or name for vm, name in zip(named, generated, strict=True)]


def _taken(spec: DeploySpec, name: str) -> InvalidParameter:
    domains = [f": {network.network_domain}" for network in spec.networks if network.network_domain]
    where = domains[0] if domains else f" of network {', '.join(network.name for network in spec.networks)}"
    rule = f"The vm with hostName {name} already exists in the network domain{where}"
    return InvalidParameter("name", name, rule)


def _first_free(
    connection: Connection, prefix: str, networks: Sequence[int], count: int, given: Set[str]
) -> list[str]:
    """Return the first numbered names with this prefix that are free in the networks.

    If another transaction uses one of these names first, this transaction fails and is repeated.
    """
    free: list[str] = []
    begin, width = 1, count
    while len(free) < count:  # ends, because at most as many names are taken as there are VMs
        names = [f"{prefix}-{number}" for number in range(begin, begin + width)]
        taken = names_in_use(connection, names, networks) | given
        free += [name for name in names if name.lower() not in taken]
        begin, width = begin + width, width * 2
    return free[:count]


def check_host_names(request: DeployRequest, *, listed: bool) -> None:
    """Check that the requested names and the name prefix can be host names. No row is read.

    If ``listed`` is true, the error names the entry of the VM in the call's list.

    Raises:
        InvalidParameter: a name or the prefix cannot be a host name.
    """
    for vm in request.vms:
        if vm.name is not None:
            with named_entry(vm.entry) if listed else nullcontext():
                require_host_name("name", vm.name, LONGEST_NAME)
    if request.name_prefix is not None:
        require_host_name("nameprefix", request.name_prefix, LONGEST_PREFIX)


def require_host_name(parameter: str, name: str, longest: int = LONGEST_NAME) -> None:
    """Check that a text can be a host name.

    Raises:
        InvalidParameter: the text cannot be a host name. The error names ``parameter``.
    """
    if len(name) > longest or not HOST_NAME.fullmatch(name):
        raise InvalidParameter(
            parameter,
            name,
            f"it must be 1 to {longest} letters, digits and hyphens, first a letter, last not a hyphen",
        )
