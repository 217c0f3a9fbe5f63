"""No parameter is declared in vain: its command looks at what it is given, or says that this has no effect."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.unsupported_resources import ABSENT
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import SHOW_ICON
from bulkdeploy.domain.entities import Entity
from tests.access.tenants import RUNNING, STOPPED
from tests.access.walking import COMMANDS, Walker
from tests.support.hypervisors.drivers import OF_HYPERVISORS
from tests.support.zones.world import ADMIN, USER

REMOVING = ("delete", "destroy", "disable", "expunge", "lock", "release", "remove", "suspend", "registerUserKeys")
"""Beginnings of commands that come last: they take away what others ask about, and who asks."""

WITHOUT_EFFECT = {
    "addAccountToProject": {"email"},
    "deleteNetwork": {"forced"},
    "deleteTemplate": {"issystem"},
    "destroyVolume": {"expunge"},
    "detachIso": {"forced"},
    "listCapacity": {"fetchlatest"},
    "listClusterDrsPlan": {"keyword"},
    "listDetailOptions": {"resourceid", "resourcetype"},
    "listDiskOfferings": {"listall"},
    "listExtensions": {"details"},
    "listManagementServers": {"peers"},
    "listResourceLimits": {"isrecursive", "listall"},
    "listServiceOfferings": {"listall"},
    "listSnapshots": {"showunique"},
    "listVolumes": {"listsystemvms"},
    "registerTemplate": {"bits"},
    "restartNetwork": {"cleanup"},
    "restoreVirtualMachine": {"expunge"},
    "unmanageVirtualMachine": {"forced"},
    "updateIso": {"forceupdateostype"},
    "updateNetwork": {"forced"},
    "updateTemplate": {"forceupdateostype"},
}
"""Parameters that clients send as a matter of course and that can change nothing: their descriptions say why."""

MANAGED = (
    "INSERT INTO managed_deployments (deployment_id, desired_count, scale_in_policy, command, parameters)"
    " SELECT id, 1, 'Balanced', 'bulkDeployVirtualMachine', '{}' FROM deployments"
)
"""Lets every deployment be managed: calls about others are refused before they look at everything."""


def beside(walker: Walker) -> Mapping[str, Mapping[str, str]]:
    """What makes calls good that would else be refused before they look at everything."""
    acme = {"account": "neighbour", "domainid": walker.named("domains", "acme")}
    dns = {"dns1": "10.0.0.2", "internaldns1": "10.0.0.3", "networktype": "Advanced"}
    addresses = {"startip": "10.77.0.2", "gateway": "10.77.0.1", "netmask": "255.255.255.0"}
    addresses |= {"zoneid": walker.named("zones", "small"), "forvirtualnetwork": "true"}
    user = walker.world.id_of("users", "acme", "username")
    answer = walker.world.client().call(
        "addGuestOs", osdisplayname="Watched", oscategoryid=walker.named("os_categories", "Debian")
    )
    added = walker.world.client().call("queryAsyncJobResult", jobid=answer["jobid"])["jobresult"]["ostype"]
    return {
        "addCustomAction": {"parameters[0].name": "times"},
        "updateCustomAction": {"parameters[0].name": "times"},
        "addImageStore": {"url": "nfs://10.1.1.9/secondary", "provider": "NFS"},
        "assignVirtualMachine": acme,
        "importRole": {"rules[0].rule": "listZones", "rules[0].permission": "allow"},
        "bulkUpdateVirtualMachine": {"displayname": "web"},
        "configureHAForHost": {"provider": "kvmhaprovider"},
        "configureOutOfBandManagement": {"driver": "simulator"},
        "createAffinityGroup": {"type": "host anti-affinity"},
        "createDiskOffering": {"disksize": "1"},
        "createNetwork": {
            "startip": "10.78.0.2",
            "vlan": "778",
            "gateway": "10.78.0.1",
            "netmask": "255.255.255.0",
        },
        "createSnapshotPolicy": {
            "schedule": "30",
            "volumeid": str(walker.thing(Entity.VOLUME, "acme", RUNNING)),
        },
        "createStoragePool": {"url": "nfs://10.1.1.9/export", "scope": "ZONE", "hypervisor": "KVM"},
        "createTemplate": {"volumeid": str(walker.thing(Entity.VOLUME, "acme", STOPPED))},
        "createUser": acme,
        "createVlanIpRange": addresses,
        "createZone": dns,
        "replaceBulkDeployment": {"method": "Restore"},
        "resetSSHKeyForVirtualMachine": {"keypair": "laptop"},
        "updateAccount": {"id": walker.named("accounts", "acme")},
        "updateGuestOs": {"id": added["id"]},
        "updateRole": {"id": walker.named("roles", "denied")},
        "updateUser": {"id": user, "password": "a long enough password"},
    }


class Watched(Mapping[str, Any]):
    """Arguments of a call that note which of them are asked for by name."""

    def __init__(self, arguments: Mapping[str, Any], read: set[str]) -> None:
        self._arguments, self._read = arguments, read

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return self._arguments[name]

    def __contains__(self, name: object) -> bool:
        self._read.add(str(name))
        return name in self._arguments

    def __iter__(self) -> Iterator[str]:
        return iter(self._arguments)

    def __len__(self) -> int:
        return len(self._arguments)

    def items(self) -> Any:
        """All at once, which is to look at none."""
        return self._arguments.items()


def watched(command: Command, read: set[str]) -> Command:
    """The command, noting what of its arguments is read."""

    def watching(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(call: Call, *prepared: Any) -> Any:
            return function(replace(call, arguments=Watched(call.arguments, read)), *prepared)

        return watched

    prepare = None if command.prepare is None else watching(command.prepare)
    sharing = (
        None if command.sharing is None else replace(command.sharing, request=watching(command.sharing.request))
    )
    return replace(command, handler=watching(command.handler), prepare=prepare, sharing=sharing)


@pytest.mark.long
def test_every_parameter_is_read_or_said_to_have_no_effect(walker: Walker, postgres_url: str) -> None:
    """A good call, and one with each parameter that it did not ask for, ask for all that have an effect."""
    read: dict[str, set[str]] = defaultdict(set)
    commands = {name: watched(command, read[name]) for name, command in COMMANDS.items()}
    others = beside(walker)
    last = sorted(COMMANDS, key=lambda name: name.startswith(REMOVING))
    with walker.in_a_copy(postgres_url, commands) as copy:
        with copy.connected() as connection, connection.begin():
            connection.execute(text(MANAGED))
        for name in last:
            for with_one in ("", *(parameter.name for parameter in COMMANDS[name].parameters)):
                for by in (ADMIN, USER):
                    if with_one not in read[name]:
                        good = copy.plausible(COMMANDS[name], by, with_one)
                        more = {key: value for key, value in others.get(name, {}).items() if key != with_one}
                        copy.call(name, by, good | more)
    unread = {
        name: {one.name for one in command.parameters if len(one.choices) != 1} - read[name] - {SHOW_ICON.name}
        for name, command in COMMANDS.items()
        if name not in ABSENT and name not in OF_HYPERVISORS
    }
    found = {name: found for name, found in unread.items() if found}
    differ = {name: found.get(name, set()) ^ WITHOUT_EFFECT.get(name, set()) for name in found | WITHOUT_EFFECT}
    assert {name: names for name, names in differ.items() if names} == {}
