"""Names of new VMs: given, made of a prefix, or generated; unique in the network's domain."""

import re
from collections.abc import Sequence

from sqlalchemy import Connection

from bulkdeploy.domain.deployment import DeployAsk, DeploySpec
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.store.configuration.configuration import Configuration
from bulkdeploy.store.deployments.deployment_facts import names_in_use
from bulkdeploy.store.deployments.deployment_rows import NewVms

HOST_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
LONGEST_NAME = 63
LONGEST_PREFIX = 40
"""Characters of a name prefix: a number and, rarely, a part of a uuid must fit behind it in 63."""


def virtual_machine_names(
    connection: Connection, configuration: Configuration, spec: DeploySpec, new: NewVms
) -> Sequence[str]:
    """One host name per VM, in creation order.

    Without name or prefix: ``<instance.name>-<uuid>`` (reference section 5.7). With a prefix:
    ``<prefix>-<number>``, the number being the VM's own; where somebody has that name already, a part of
    the VM's uuid is added.

    Raises:
        InvalidParameter: a given name that the network's domain has already.
    """
    networks = [network.id for network in spec.networks]
    if spec.ask.name is not None:
        if names_in_use(connection, [spec.ask.name], networks):
            domain = next((network.network_domain for network in spec.networks if network.network_domain), "")
            raise InvalidParameter(
                "name",
                spec.ask.name,
                f"The vm with hostName {spec.ask.name} already exists in the network domain: {domain}",
            )
        return [spec.ask.name]
    if spec.ask.name_prefix is None:
        prefix = configuration.text("instance.name")
        return [f"{prefix}-{uuid}" for uuid in new.uuids]
    names = [f"{spec.ask.name_prefix}-{vm_id}" for vm_id in new.ids]
    taken = names_in_use(connection, names, networks)
    return [
        f"{name}-{uuid[:8]}" if name.lower() in taken else name for name, uuid in zip(names, new.uuids, strict=True)
    ]


def check_host_names(ask: DeployAsk) -> None:
    """Whether name and prefix can be host names: said before anything is looked up, in dry runs too.

    Raises:
        InvalidParameter: one of them cannot.
    """
    if ask.name is not None:
        require_host_name("name", ask.name, LONGEST_NAME)
    if ask.name_prefix is not None:
        require_host_name("nameprefix", ask.name_prefix, LONGEST_PREFIX)


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
