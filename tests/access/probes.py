"""Probes of ownership: for each command and each id that it takes, a call that is good but for whose the id is.

A probe names something of a victim, and is sent by strangers and by its owner: the same call, with the caller's own
things for everything else. That the owner gets past it shows that nothing but ownership stops a stranger.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import ExactlyOne, Exclusive
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.domain.entities import Entity
from tests.access.tenants import BARE, DESTROYED, KEPT, RUNNING, STOPPED, own
from tests.access.walking import COMMANDS, Walker, id_parameters
from tests.support.zones.world import DOMAIN_ADMIN

BUSY, PROJECT = "-busy", f"{STOPPED}-project"


@dataclass(frozen=True, slots=True)
class Scene:
    """Who sends a probe, and whose thing it names."""

    walker: Walker
    by: str
    victim: str

    def mine(self, entity: Entity, suffix: str = "") -> str:
        """Something of the caller's."""
        return str(self.walker.thing(entity, self.by, suffix))

    def named(self, table: str, name: str) -> str:
        """Something that everybody may use."""
        return self.walker.named(table, name)


Value = str | None | Callable[[Scene], str]
"""What a parameter is given; None: it is not given."""


def _theirs(scene: Scene) -> str:
    return own(scene.victim)


def _mine(scene: Scene) -> str:
    return own(scene.by)


def _victim(scene: Scene) -> str:
    return scene.victim


def _debian(scene: Scene) -> str:
    return scene.named("templates", "Debian 12")


def _guests(scene: Scene) -> str:
    return scene.named("networks", "guests")


def _project_vm(scene: Scene) -> str:
    return scene.mine(Entity.VIRTUAL_MACHINE, PROJECT)


def _project_data(scene: Scene) -> str:
    data = "SELECT u.uuid FROM user_data u JOIN accounts a ON a.id = u.account_id WHERE a.name = :name"
    return str(scene.walker.world.scalar(data, name=f"{scene.by}-project"))


TRAFFIC: Mapping[str, Value] = {"cidrlist": "10.0.0.0/8", "protocol": "tcp", "startport": "1", "endport": "2"}
BY_GROUP_NAME: Mapping[str, Value] = {"securitygroupid": None, "securitygroupname": _theirs}
BY_NAME: Mapping[str, Value] = {"id": None, "name": _theirs}
NEW_DISK: Mapping[str, Value] = {"diskofferingid": lambda scene: scene.named("disk_offerings", "20 GiB")}

DEPLOYED: Mapping[str, Value] = {**NEW_DISK, "templateid": _debian, "networkids": _guests, "hypervisor": "KVM"}

BESIDE: Mapping[str, Mapping[str, Value]] = {
    "addAccountToProject": {"account": "neighbour"},
    "addResourceDetail": {"details[0].key": "walker", "details[0].value": "was here"},
    "assignVirtualMachine": {"virtualmachineid": lambda scene: scene.mine(Entity.VIRTUAL_MACHINE, BARE)},
    "authorizeSecurityGroupEgress": TRAFFIC,
    "authorizeSecurityGroupIngress": TRAFFIC,
    "bulkDeployVirtualMachine": DEPLOYED,
    "createAccount": {"accounttype": "0"},
    "createSnapshot": {"volumeid": lambda scene: scene.mine(Entity.VOLUME, RUNNING)},
    "createResourceSchedule": {"schedule": "30 2 * * *", "startdate": None, "enddate": None},
    "createSnapshotPolicy": {"schedule": "30"},
    "createVMSchedule": {"schedule": "30 2 * * *", "startdate": None, "enddate": None},
    "createAffinityGroup": {"type": "host anti-affinity"},
    "createDiskOffering": {"disksize": "1"},
    "createNetwork": {
        "networkofferingid": lambda scene: scene.named(
            "network_offerings", "DefaultIsolatedNetworkOfferingWithSourceNatService"
        )
    },
    "createServiceOffering": {"cpunumber": "1", "cpuspeed": "500", "memory": "512"},
    "createTags": {"tags[0].key": "walker", "tags[0].value": "was here"},
    "createVolume": NEW_DISK,
    "createZone": {"dns1": "10.0.0.1", "internaldns1": "10.0.0.1"},
    "deleteAccountFromProject": {"account": lambda scene: f"{scene.victim}-member"},
    "deleteDomain": {"cleanup": "true"},
    "deleteProject": {"cleanup": "true"},
    "deployVirtualMachine": DEPLOYED,
    "listTemplates": {"templatefilter": "self"},
    "listIsos": {"isofilter": "self"},
    "migrateVirtualMachine": {"autoselect": "true"},
    "registerTemplate": {"hypervisor": "KVM"},
    "resetSSHKeyForVirtualMachine": {"keypair": _mine},
    "resizeVolume": {"diskofferingid": lambda scene: scene.named("disk_offerings", "Custom"), "size": "30"},
    "resetUserDataForVirtualMachine": {"userdata": "aGVsbG8="},
    "updateAccount": {"networkdomain": "walker.example"},
    "updateConfiguration": {"name": "api.allowed.source.cidr.list", "value": "0.0.0.0/0"},
    "updateInstanceGroup": {"name": "walker"},
    "updateProject": {"displaytext": "walker"},
    "updateResourceLimit": {"max": "10", "resourcetype": "0"},
    "updateUser": {"firstname": "Walker"},
    "updateVirtualMachine": {"displayname": "walker"},
}
"""What a command is given besides its required parameters, whatever it is asked about."""

OF_MINE: Mapping[str, Value] = {
    "account": lambda scene: f"{scene.by}-member",
    "domainid": lambda scene: scene.mine(Entity.DOMAIN),
}
TO_OWNER: Mapping[str, Value] = {
    "account": lambda scene: scene.victim if scene.by == DOMAIN_ADMIN else f"{scene.by}-member",
    "domainid": lambda scene: str(
        scene.walker.thing(Entity.DOMAIN, scene.victim if scene.by == DOMAIN_ADMIN else scene.by)
    ),
}
WITH: Mapping[tuple[str, str], Mapping[str, Value]] = {
    ("assignVirtualMachine", "virtualmachineid"): OF_MINE,
    ("assignVirtualMachine", "securitygroupids"): TO_OWNER,
    ("authorizeSecurityGroupEgress", "domainid"): BY_GROUP_NAME,
    ("authorizeSecurityGroupEgress", "projectid"): BY_GROUP_NAME,
    ("authorizeSecurityGroupIngress", "domainid"): BY_GROUP_NAME,
    ("authorizeSecurityGroupIngress", "projectid"): BY_GROUP_NAME,
    ("deleteAffinityGroup", "domainid"): BY_NAME,
    ("deleteAffinityGroup", "projectid"): BY_NAME,
    ("deleteSecurityGroup", "domainid"): BY_NAME,
    ("deleteSecurityGroup", "projectid"): BY_NAME,
    ("deleteSSHKeyPair", "domainid"): {"name": _theirs},
    ("deleteSSHKeyPair", "projectid"): {"name": _theirs},
    ("deleteUserData", "projectid"): {"id": _project_data},
    ("resetSSHKeyForVirtualMachine", "id"): {"keypair": _theirs},
    ("resetSSHKeyForVirtualMachine", "projectid"): {"id": _project_vm},
    ("resetUserDataForVirtualMachine", "projectid"): {"id": _project_vm},
    ("resetUserDataForVirtualMachine", "userdataid"): {"userdata": None},
    ("updateVMAffinityGroup", "id"): {"affinitygroupnames": _theirs},
}
"""What a command is given, or not given after all, when it is asked about one parameter."""

STATES: Mapping[tuple[str, str], str] = {
    ("assignVirtualMachine", "virtualmachineid"): BARE,
    ("createTemplate", "volumeid"): STOPPED,
    ("createVMSnapshot", "virtualmachineid"): KEPT,
    ("listResourceSchedule", "resourceid"): KEPT,
    ("listVMSchedule", "virtualmachineid"): KEPT,
    ("listVMSnapshot", "virtualmachineid"): KEPT,
    ("createSnapshot", "volumeid"): RUNNING,
    ("createSnapshotPolicy", "volumeid"): RUNNING,
    ("listSnapshotPolicies", "volumeid"): KEPT,
    ("listSnapshots", "volumeid"): KEPT,
    ("destroyVirtualMachine", "volumeids"): "-attached",
    ("detachIso", "virtualmachineid"): RUNNING,
    ("detachVolume", "id"): "-attached",
    ("expungeVirtualMachine", "id"): DESTROYED,
    ("listAffinityGroups", "virtualmachineid"): RUNNING,
    ("listNics", "networkid"): BUSY,
    ("listSecurityGroups", "virtualmachineid"): RUNNING,
    ("listVirtualMachines", "affinitygroupid"): BUSY,
    ("listVirtualMachines", "isoid"): BUSY,
    ("listVirtualMachines", "networkid"): BUSY,
    ("listVirtualMachines", "securitygroupid"): BUSY,
    ("listVirtualMachines", "templateid"): BUSY,
    ("rebootVirtualMachine", "id"): RUNNING,
    ("recoverVirtualMachine", "id"): DESTROYED,
    ("revokeSecurityGroupEgress", "id"): "egress",
    ("revokeSecurityGroupIngress", "id"): "ingress",
    ("stopVirtualMachine", "id"): RUNNING,
}
"""Which of the victim's things is named: the end of its name. Metrics are asked what their list is asked."""

TAGGED = {
    Entity.VIRTUAL_MACHINE: "UserVm",
    Entity.TEMPLATE: "Template",
    Entity.ISO: "ISO",
    Entity.VOLUME: "Volume",
    Entity.VM_SNAPSHOT: "VMSnapshot",
    Entity.SNAPSHOT: "Snapshot",
    Entity.SNAPSHOT_POLICY: "SnapshotPolicy",
    Entity.NETWORK: "Network",
    Entity.SECURITY_GROUP: "SecurityGroup",
}

BY_TYPE = ("createTags", "deleteTags", "addResourceDetail", "removeResourceDetail")
"""Commands that name a resource by its type and its id."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A command asked about something of a victim."""

    command: Command
    parameter: str
    entity: Entity

    def sent(self, scene: Scene) -> dict[str, str]:
        """The parameters of the call."""
        name = self.command.name
        beside = {**BESIDE.get(name, {}), **self._owner(), **WITH.get((name, self.parameter), {})}
        sent = scene.walker.plausible(self.command, scene.by, self.parameter)
        for other, value in beside.items():
            sent.pop(other, None)
            if value is not None:
                sent[other] = value(scene) if callable(value) else value
        for rule in self.command.rules:
            if isinstance(rule, ExactlyOne | Exclusive) and self.parameter in rule.names:
                sent = {other: value for other, value in sent.items() if other not in rule.names}
        if "resourcetype" in sent and self.entity in TAGGED and name in BY_TYPE:
            sent["resourcetype"] = TAGGED[self.entity]
        listed_alike = name.removesuffix("Metrics")
        theirs = scene.walker.thing(self.entity, scene.victim, STATES.get((listed_alike, self.parameter), ""))
        assert theirs is not None, f"{scene.victim} has no {self.entity} for {name}"
        return {**sent, self.parameter: theirs}

    def _owner(self) -> Mapping[str, Value]:
        """A domain is named with an account of it, but where lists are of all that are in it."""
        takes_account = any(parameter.name == "account" for parameter in self.command.parameters)
        makes_one = self.command.name == "createAccount"
        named = self.parameter == "domainid" and takes_account and self.command.changes_state and not makes_one
        return {"account": _victim} if named else {}

    def is_known_to(self, scene: Scene) -> bool:
        """Whether the thing is no secret: all know the domain that they are in."""
        return self.entity is Entity.DOMAIN and _mine_too(scene)

    @property
    def wants_security_groups(self) -> bool:
        """Whether it is about something that only zones with security groups have."""
        return self.parameter == "securitygroupids"

    def __str__(self) -> str:
        return f"{self.command.name} {self.parameter}={self.entity.value}"


def _mine_too(scene: Scene) -> bool:
    return scene.walker.thing(Entity.DOMAIN, scene.by) == scene.walker.thing(Entity.DOMAIN, scene.victim)


def probes(role: RoleType, *, opened: bool = False) -> Iterator[Probe]:
    """All that callers of this type of role can send, or could if rules of their role opened every command."""
    for command in COMMANDS.values():
        if opened or role in command.roles:
            for parameter, entity in id_parameters(command):
                if role in parameter.roles:
                    yield Probe(command, parameter.name, entity)
