"""Names of new VMs: given, made of a prefix, or generated; unique in the network's domain."""

import re
from collections.abc import Sequence

from sqlalchemy import Connection

from bulkdeploy.domain.deployment import DeployRequest, DeploySpec
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.store.configuration.configuration import Configuration
from bulkdeploy.store.deployments.deployment_facts import names_in_use
from bulkdeploy.store.deployments.deployment_rows import NewVms

HOST_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
LONGEST_NAME = 63
LONGEST_PREFIX = 40
"""Characters of a name prefix: a number must fit behind it in 63."""


def virtual_machine_names(
    connection: Connection, configuration: Configuration, spec: DeploySpec, new: NewVms
) -> Sequence[str]:
    """One host name per VM, in creation order.

    Without name or prefix: ``<instance.name>-<uuid>`` (reference section 5.7). With a prefix:
    ``<prefix>-1``, ``<prefix>-2`` and so on, without those that somebody in the networks has already.

    Raises:
        InvalidParameter: a given name that the network's domain has already.
    """
    networks = [network.id for network in spec.networks]
    if spec.request.name is not None:
        if names_in_use(connection, [spec.request.name], networks):
            domain = next((network.network_domain for network in spec.networks if network.network_domain), "")
            raise InvalidParameter(
                "name",
                spec.request.name,
                f"The vm with hostName {spec.request.name} already exists in the network domain: {domain}",
            )
        return [spec.request.name]
    if spec.request.name_prefix is None:
        prefix = configuration.text("instance.name")
        return [f"{prefix}-{uuid}" for uuid in new.uuids]
    return _first_free(connection, spec.request.name_prefix, networks, new.count)


def _first_free(connection: Connection, prefix: str, networks: Sequence[int], count: int) -> list[str]:
    """Numbered names that are free. Who takes one of them meanwhile makes the transaction repeat."""
    free: list[str] = []
    begin, width = 1, count
    while len(free) < count:  # ends: as many names are taken as there are VMs, at most
        names = [f"{prefix}-{number}" for number in range(begin, begin + width)]
        taken = names_in_use(connection, names, networks)
        free += [name for name in names if name.lower() not in taken]
        begin, width = begin + width, width * 2
    return free[:count]


def check_host_names(request: DeployRequest) -> None:
    """Whether name and prefix can be host names: said before anything is looked up, in dry runs too.

    Raises:
        InvalidParameter: one of them cannot.
    """
    if request.name is not None:
        require_host_name("name", request.name, LONGEST_NAME)
    if request.name_prefix is not None:
        require_host_name("nameprefix", request.name_prefix, LONGEST_PREFIX)


def require_host_name(parameter: str, name: str, longest: int = LONGEST_NAME) -> None:
    """Whether a text can be a host name.

    Raises:
        InvalidParameter: it cannot.
    """
    if len(name) > longest or not HOST_NAME.fullmatch(name):
        raise InvalidParameter(
            parameter,
            name,
            f"it must be 1 to {longest} letters, digits and hyphens, first a letter, last not a hyphen",
        )
