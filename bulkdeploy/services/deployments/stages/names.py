"""Stage of a deployment: assigns each VM a name that is unique in its call and in its networks."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from bulkdeploy.services.deployments.deploying_calls import DeployingCall, Refusals
from bulkdeploy.services.deployments.deployment_names import virtual_machine_names
from bulkdeploy.store.configuration.configurations import Configuration


def give_names(
    connection: Connection, configuration: Configuration, calls: Sequence[DeployingCall], refusals: Refusals
) -> None:
    """Set the host name, the display name and the instance name of each VM.

    Raises:
        InvalidParameter: the name that the only call requests is in use.
        MustRunAlone: some of several calls must be rejected.
    """
    of_networks: dict[int, set[str]] = defaultdict(set)
    for number, each in enumerate(calls):
        with refusals.of(number):
            _name_one(connection, configuration, each, of_networks)
    refusals.check()


def _name_one(
    connection: Connection,
    configuration: Configuration,
    each: DeployingCall,
    of_networks: Mapping[int, set[str]],
) -> None:
    """Set the names of the VMs of one call.

    ``of_networks`` has the names of earlier calls by network; the names of this call are added.
    """
    of_call = set[str]()
    suffix = configuration.text("instance.name")
    for part in each.parts:
        taken = of_call.union(*(of_networks[network.id] for network in part.spec.networks))
        part.names = virtual_machine_names(connection, configuration, part, taken, listed=each.call.listed)
        part.display_names = (
            [vm.display_name or name for vm, name in zip(part.named, part.names, strict=True)]
            if part.named
            else part.names
        )
        account_id = part.spec.owner.account_id
        part.instance_names = [f"i-{account_id}-{vm_id}-{suffix}" for vm_id in part.ids]
        if each.call.listed:
            of_call.update(name.lower() for name in part.names)
    for part in each.parts:
        for network in part.spec.networks if part.spec.request.has_given_names else ():
            of_networks[network.id].update(name.lower() for name in part.names)
