"""CloudStack's global settings that have an effect here (one file: a list).

Operators change them at run time through ``updateConfiguration``, and ``store.configuration.configurations`` reads
them. A setting that no code reads does not belong here: ``store.configuration.cloudstack_settings`` has all others.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from bulkdeploy.domain.networks.source_networks import are_networks
from bulkdeploy.domain.virtual_machines.leases import LEASES_ENABLED, RETRY_INTERVAL

LONGEST_VALUE = 4096
SECRETS = "Secure"
"""The category of CloudStack's settings that hold secrets."""
ACCOUNT_SETTINGS_FOR_DOMAINS = "enable.account.settings.for.domain"
SETTINGS_FOR_CHILD_DOMAINS = "enable.domain.settings.for.child.domain"
WHOLE = re.compile(r"-?[0-9]{1,15}", re.ASCII)
NAME_PART = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,25}", re.ASCII)
"""What a host name may begin with so that ``-<uuid>`` still fits behind it in 63 characters."""

ALLOCATOR_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
"""The file name of an allocator program: never a path, so who can write its directory chooses what is run."""

COMMAND_TIMEOUTS = re.compile(r"(\s*\w+\s*=\s*0*[1-9][0-9]{0,8}\s*(,(?=.)|$))*", re.ASCII)
"""Entries such as ``StartCommand=300``, separated by commas."""

DECIMAL = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,9})?", re.ASCII)


class Scope(StrEnum):
    """The types of objects and owners for which a setting may have a value of its own."""

    GLOBAL = "Global"
    ZONE = "Zone"
    CLUSTER = "Cluster"
    STORAGE_POOL = "StoragePool"
    ACCOUNT = "Account"
    DOMAIN = "Domain"


class ValueType(StrEnum):
    """The type of a setting's value."""

    STRING = "String"
    BOOLEAN = "Boolean"
    NUMBER = "Number"
    DECIMAL = "Decimal"
    RANGE = "Range"
    """A number from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A global setting. Its description contains its unit and its bounds.

    The domain does not know which planners and host algorithms are installed. ``scheduling.catalog.settings``
    returns these settings with their choices.
    """

    name: str
    default: str
    type: ValueType
    description: str
    category: str = "Advanced"
    scope: Scope = Scope.GLOBAL
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    names_vms: bool = False
    lists_cidrs: bool = False
    lists_allocators: bool = False
    lists_timeouts: bool = False
    other_scopes: tuple[Scope, ...] = ()
    has_effect: bool = True
    parent: str | None = None
    """The setting that must be on for this one to matter."""

    def can_be_set_for(self, scope: Scope) -> bool:
        """Return whether the setting can have a value of its own in a scope."""
        return scope in (Scope.GLOBAL, self.scope, *self.other_scopes)

    def broken_rule(self, value: str) -> str | None:
        """Return the rule that a value violates, or None if the value is valid.

        A rule is a text such as ``must be a number from 0 to 1``.
        """
        if not self.has_effect and self.category == SECRETS:
            return "has no effect here and holds a secret, so that it is not stored"
        if self.choices:
            return None if value in self.choices else f"must be one of {', '.join(self.choices)}"
        if self.type is ValueType.BOOLEAN:
            return None if value in ("true", "false") else "must be true or false"
        if self.lists_cidrs:
            return (
                None
                if value == self.default or are_networks(value)
                else "must be networks such as 10.0.0.0/8, separated by commas"
            )
        if self.lists_allocators:
            names = value.split(",")
            good = len(set(names)) == len(names) and all(map(ALLOCATOR_NAME.fullmatch, names))
            return None if good else "must be builtin and names of programs, each once, separated by commas"
        if self.lists_timeouts:
            rule = "must be entries such as StartCommand=300, separated by commas. Validation failed"
            return None if COMMAND_TIMEOUTS.fullmatch(value) else rule
        if self.names_vms:
            rule = "must be 1 to 26 letters, digits and hyphens, first a letter: VM names begin with it"
            return None if NAME_PART.fullmatch(value) else rule
        if self.type is ValueType.STRING:
            return None if len(value) <= LONGEST_VALUE else f"must be at most {LONGEST_VALUE} characters"
        pattern = WHOLE if self.type is ValueType.NUMBER else DECIMAL
        low, high = (0, 1) if self.type is ValueType.RANGE else (self.minimum, self.maximum)
        bounds = ("" if low is None else f" from {low:.15g}") + ("" if high is None else f" to {high:.15g}")
        if pattern.fullmatch(value) is None or not (
            (low is None or float(value) >= low) and (high is None or float(value) <= high)
        ):
            return f"must be a {'whole number' if self.type is ValueType.NUMBER else 'number'}{bounds}"
        return None


B, N, D, S = ValueType.BOOLEAN, ValueType.NUMBER, ValueType.DECIMAL, ValueType.STRING


def _share(name: str, description: str, scope: Scope, default: str = "0.85") -> Setting:
    return Setting(name, default, D, description, "Alert", scope, 0, 1)


def _notified_share(resource: str, what: str) -> Setting:
    return _share(
        f"cluster.{resource}.allocated.capacity.notificationthreshold",
        f"Share of {what} above which lists with metrics mark it, whether it is promised or in use",
        Scope.CLUSTER,
        "0.75",
    )


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "apply.allocation.algorithm.to.pods",
        "false",
        B,
        "Disperse VMs over pods first, then over the clusters of each pod",
    ),
    Setting("vm.allocation.algorithm", "random", S, "How hosts inside a cluster are chosen"),
    Setting(
        "vm.deployment.planner",
        "FirstFitPlanner",
        S,
        "Planner of single deployments whose offering names none; bulk deployments disperse by count",
    ),
    *(
        Setting(
            f"placement.allocators.{task}",
            "builtin",
            S,
            f"Who chooses hosts {meaning}: builtin, or programs in allocator_directory; tried in this order, "
            "separated by commas, until one answers",
            scope=Scope.ZONE,
            lists_allocators=True,
        )
        for task, meaning in (
            ("allocate", "for VMs that are deployed or started"),
            ("relocate", "for a VM that moves"),
            ("evacuate", "for all VMs of a host that is emptied"),
        )
    ),
    Setting(
        "placement.allocators.timeout",
        "30",
        N,
        "Seconds that an allocator program may take for one answer",
        scope=Scope.ZONE,
        minimum=1,
        maximum=600,
    ),
    Setting(
        "cluster.threshold.enabled",
        "true",
        B,
        "Keep VMs off clusters that are filled above the disable thresholds",
    ),
    _share(
        "cluster.cpu.allocated.capacity.disablethreshold",
        "Share of a cluster's CPU above which it takes no new VMs",
        Scope.CLUSTER,
    ),
    _share(
        "cluster.memory.allocated.capacity.disablethreshold",
        "Share of a cluster's memory above which it takes no new VMs",
        Scope.CLUSTER,
    ),
    _share(
        "pool.storage.allocated.capacity.disablethreshold",
        "Share of a pool's over-provisioned size above which it takes no new volumes",
        Scope.STORAGE_POOL,
    ),
    _share(
        "pool.storage.capacity.disablethreshold",
        "Share of a pool's measured size in use above which it takes no new volumes",
        Scope.STORAGE_POOL,
    ),
    _notified_share("cpu", "a host's or a cluster's CPU"),
    _notified_share("memory", "a host's or a cluster's memory"),
    _notified_share("storage", "a storage pool's size"),
    Setting(
        "storage.overprovisioning.factor",
        "2",
        D,
        "Times its size that a shared pool may promise",
        "Storage",
        Scope.STORAGE_POOL,
        1,
        100,
    ),
    Setting(
        "cpu.overprovisioning.factor",
        "1.0",
        D,
        "CPU over-commit of clusters that are added",
        "Capacity",
        Scope.CLUSTER,
        1,
        100,
    ),
    Setting(
        "mem.overprovisioning.factor",
        "1.0",
        D,
        "Memory over-commit of clusters that are added",
        "Capacity",
        Scope.CLUSTER,
        1,
        100,
    ),
    Setting(
        "start.retry",
        "10",
        N,
        "Times that a start or a migration is tried again after a failure, on another host if one remains",
        minimum=1,
        maximum=100,
    ),
    Setting(
        "host.maintenance.migrations.max",
        "10",
        N,
        "VMs that are moved off a host at once while it is prepared for maintenance",
        minimum=1,
        maximum=1000,
    ),
    Setting(
        LEASES_ENABLED,
        "false",
        B,
        "VMs can have leases, and are stopped or destroyed when these expire. While it is false, VMs get no leases,"
        " and expired leases have no effect. The actions of leases that expired meanwhile follow when it becomes"
        " true",
    ),
    Setting(
        RETRY_INTERVAL,
        "3600",
        N,
        "Seconds after which the action of an expired lease is tried again if it was rejected",
        minimum=60,
        maximum=86_400,
        parent=LEASES_ENABLED,
    ),
    Setting(
        "project.invite.required",
        "false",
        B,
        "addAccountToProject invites an account to a project, which it joins by accepting; false: it joins at once",
        "Project Defaults",
    ),
    Setting(
        "project.invite.timeout",
        "86400",
        N,
        "Seconds in which an invitation to a project can be accepted",
        "Project Defaults",
        minimum=1,
    ),
    Setting(
        "vm.stats.interval",
        "60000",
        N,
        "Milliseconds between two measurements of what VMs, hosts and storage pools use; 0: none are made",
        minimum=0,
        maximum=86_400_000,
    ),
    Setting(
        "vm.stats.max.retention.time",
        "720",
        N,
        "Minutes for which measurements of VMs are kept; 0: only the last one of each VM",
        minimum=0,
        maximum=100_000,
    ),
    Setting(
        "host.down.wait",
        "60",
        N,
        "Seconds that a host must be silent to be Down; until then it is Disconnected",
        minimum=5,
        maximum=86400,
    ),
    Setting(
        "host.up.wait",
        "30",
        N,
        "Seconds that a host which was silent must answer, without a break, to be Up again",
        minimum=0,
        maximum=86400,
    ),
    Setting(
        "vm.ha.enabled",
        "true",
        B,
        "Fence hosts that are Down and have highly available VMs, and start those elsewhere",
    ),
    Setting(
        "vm.ha.restart.attempts",
        "3",
        N,
        "How often within an hour a highly available VM whose guest crashed is started again on its host. After"
        " that it is started on other hosts as often, then it stays Stopped (0: it stays Stopped at once)",
        minimum=0,
        maximum=100,
    ),
    Setting(
        "outofbandmanagement.action.timeout",
        "60",
        N,
        "Seconds that the management controller of a host may take for a request",
        scope=Scope.CLUSTER,
        minimum=1,
        maximum=3600,
    ),
    *(
        Setting(f"kvm.ha.{name}", default, N, meaning, scope=Scope.CLUSTER, minimum=1, maximum=86400)
        for name, default, meaning in (
            (
                "activity.check.interval",
                "60",
                "Seconds from the end of one activity check of a silent host to the next check",
            ),
            (
                "activity.check.timeout",
                "60",
                "Seconds after which an activity check without a result is not counted",
            ),
            (
                "activity.check.max.attempts",
                "10",
                "Activity checks of a silent host before it is Degraded, or reset and fenced",
            ),
            ("degraded.max.period", "300", "Seconds after which a Degraded host is checked again"),
            ("recover.timeout", "60", "Seconds that the reset of a host may take"),
            ("recover.wait.period", "600", "Seconds that a host gets to answer after it was reset"),
        )
    ),
    Setting(
        "kvm.ha.activity.check.failure.ratio",
        "0.7",
        D,
        "A silent host is reset and fenced if a larger share of its activity checks found no activity",
        scope=Scope.CLUSTER,
        minimum=0,
        maximum=1,
    ),
    Setting(
        "kvm.ha.recover.failure.threshold",
        "1",
        N,
        "Resets of a host that does not answer, before it is fenced; 0: it is fenced at once",
        scope=Scope.CLUSTER,
        minimum=0,
        maximum=100,
    ),
    Setting(
        "kvm.ha.fence.timeout",
        "60",
        N,
        "Seconds in which the management controller of a host that is fenced must report that it is off",
        scope=Scope.CLUSTER,
        minimum=1,
        maximum=3600,
    ),
    Setting(
        "outofbandmanagement.background.task.execution.interval",
        "4",
        N,
        "Seconds from one look at the power state of a host to the next",
        minimum=1,
        maximum=86400,
    ),
    Setting(
        "outofbandmanagement.sync.poolsize",
        "50",
        N,
        "Management controllers that one sweeper reads power states from at once",
        minimum=1,
        maximum=1000,
    ),
    Setting(
        "allow.deploy.vm.if.deploy.on.given.host.fails",
        "false",
        B,
        "Let a single deployment pinned to a host, cluster or pod be retried inside it; never a bulk one",
    ),
    Setting(
        "enable.dynamic.scale.vm",
        "false",
        B,
        "Allow running VMs to be scaled if their service offering and template allow it. A KVM guest that may be "
        "scaled has about 64 MiB less memory for its own use",
        scope=Scope.ZONE,
    ),
    Setting("instance.name", "VM", S, "Prefix of generated VM names and suffix of instance names", names_vms=True),
    Setting(
        "vm.network.nic.max.secondary.ipaddresses",
        "10",
        N,
        "Secondary addresses that one nic may have",
        minimum=0,
    ),
    Setting(
        "vm.userdata.max.length",
        "32768",
        N,
        "Longest user data, in base64 characters",
        minimum=0,
        maximum=1048576,
    ),
    Setting(
        "default.page.size",
        "500",
        N,
        "Rows of a list answer where no page size is given; the largest page",
        minimum=1,
        maximum=100000,
    ),
    Setting("job.expire.minutes", "1440", N, "Minutes that a finished job can still be queried", minimum=1),
    Setting("job.cancel.threshold.minutes", "60", N, "Minutes after which an unfinished job is failed", minimum=1),
    Setting(
        "job.cleanup.tries.max",
        "10",
        N,
        "Tries to undo what a job did once job.cancel.threshold.minutes have passed; then it is failed as it is",
        minimum=1,
    ),
    Setting("job.lost.worker.max", "5", N, "Abrupt ends of its workers after which a job is failed", minimum=1),
    Setting(
        "driver.jobs.per.host.max",
        "10",
        N,
        "Jobs in hand at once for one host, all workers together; 0: any",
        minimum=0,
    ),
    Setting(
        "driver.jobs.per.hypervisor.max",
        "0",
        N,
        "The same for all hosts of one hypervisor type together",
        minimum=0,
    ),
    Setting("expunge.delay", "86400", N, "Seconds that a destroyed VM can be recovered", minimum=1),
    Setting(
        ACCOUNT_SETTINGS_FOR_DOMAINS,
        "false",
        B,
        "Settings of accounts that have no effect here can also be set for domains",
    ),
    Setting(
        SETTINGS_FOR_CHILD_DOMAINS,
        "false",
        B,
        "Such a setting of a domain also holds for the domains below, and for all their accounts",
    ),
    Setting("allow.public.user.templates", "true", B, "Users may make templates public", scope=Scope.ACCOUNT),
    Setting("allow.user.view.destroyed.vm", "false", B, "Users see their destroyed VMs in lists"),
    Setting("allow.user.expunge.recover.vm", "false", B, "Users may expunge and recover their VMs"),
    Setting("allow.user.create.projects", "true", B, "Users may make projects"),
    Setting(
        "use.system.guest.vlans",
        "true",
        B,
        "Accounts with dedicated VLANs get other VLANs when their own are used up",
        scope=Scope.ACCOUNT,
    ),
    Setting("allow.user.force.stop.vm", "true", B, "Users may stop their VMs with force"),
    Setting(
        "capacity.skipcounting.hours",
        "3600",
        N,
        "Seconds that a stopped VM still counts for affinity on its last host",
        minimum=0,
    ),
    Setting(
        "max.guest.cpu.cores", "0", N, "Most cores that a VM may be given; 0: as many as a host has", minimum=0
    ),
    Setting("max.guest.cpu.speed", "0", N, "Most MHz a core that a VM may be given; 0: a host's", minimum=0),
    Setting("max.guest.memory", "0", N, "Most MiB that a VM may be given; 0: a host's", minimum=0),
    Setting(
        "schedule.missed.max",
        "600",
        N,
        "Seconds after which a missed occurrence of a VM schedule is skipped; until then it still runs",
        minimum=60,
        maximum=604_800,
    ),
    Setting("vmsnapshot.max", "10", N, "Most snapshots that a VM may have", minimum=0, maximum=1000),
    Setting(
        "drs.algorithm",
        "balanced",
        S,
        "How clusters are balanced: by shares of CPU and memory, owners and room for the loss of a host",
        scope=Scope.CLUSTER,
        choices=("balanced",),
    ),
    Setting(
        "drs.max.migrations",
        "50",
        N,
        "Most moves of one plan that balances a cluster",
        scope=Scope.CLUSTER,
        minimum=1,
        maximum=100_000,
    ),
    Setting(
        "drs.automatic.enable",
        "false",
        B,
        "Clusters are balanced without being asked",
        scope=Scope.CLUSTER,
    ),
    Setting(
        "drs.automatic.interval",
        "60",
        N,
        "Minutes from one automatic balancing of a cluster to the next",
        scope=Scope.CLUSTER,
        minimum=1,
        parent="drs.automatic.enable",
    ),
    *(
        Setting(
            f"snapshot.max.{interval}",
            "8",
            N,
            f"Most snapshots that a {interval} snapshot policy may keep",
            "Snapshots",
            minimum=1,
            maximum=1000,
        )
        for interval in ("hourly", "daily", "weekly", "monthly")
    ),
    Setting("custom.diskoffering.size.min", "1", N, "Smallest custom disk, GiB", minimum=1),
    Setting("custom.diskoffering.size.max", "1024", N, "Largest custom disk, GiB", minimum=1),
    Setting(
        "incorrect.login.attempts.allowed",
        "5",
        N,
        "Wrong passwords in a row after which a user's password is locked, not its keys; 0: never",
        minimum=0,
    ),
    Setting(
        "enforce.post.requests.and.timestamps",
        "false",
        B,
        "Calls that change something come by POST and, if signed, expire (version 3) within 15 minutes",
        "Secure",
    ),
    Setting("api.source.cidr.checks.enabled", "true", B, "Heed api.allowed.source.cidr.list", "Secure"),
    Setting(
        "api.allowed.source.cidr.list",
        "0.0.0.0/0,::/0",
        S,
        "Networks that calls may come from, separated by commas; behind a proxy see proxy.cidr",
        "Secure",
        Scope.ACCOUNT,
        lists_cidrs=True,
    ),
    Setting(
        "proxy.header.verify",
        "false",
        B,
        "Believe trusted proxies about whose calls they pass on: in logs, limits of logins and source networks",
    ),
    Setting(
        "proxy.header.names",
        "X-Forwarded-For,HTTP_CLIENT_IP,HTTP_X_FORWARDED_FOR",
        S,
        "Headers that trusted proxies say it by, separated by commas; the first that has an address counts",
    ),
    Setting(
        "proxy.cidr",
        "",
        S,
        "Networks of trusted proxies, separated by commas; blank: none is trusted",
        lists_cidrs=True,
    ),
    Setting(
        "api.unknown.parameters.refused",
        "false",
        B,
        "Refuse calls with parameters that their commands do not have, here or in CloudStack; "
        "false: ignore these and say so in the answer, in the field warning",
    ),
    Setting(
        "dynamic.apichecker.cache.period",
        "0",
        N,
        "Seconds that the rules of roles are cached: none, so that changes hold from the next call on",
        minimum=0,
        maximum=0,
    ),
    Setting("api.throttling.enabled", "false", B, "Limit the calls an account makes per interval"),
    Setting("api.throttling.interval", "1", N, "Seconds of a throttling interval", minimum=1),
    Setting("api.throttling.max", "25", N, "Calls an account may make per interval", minimum=1),
    Setting(
        "virtual.machine.max.count.per.bulk.call",
        "50000",
        N,
        "Most VMs that one bulkDeployVirtualMachine call may ask for",
        minimum=1,
        maximum=1000000,
    ),
    *(
        Setting(
            f"max.{owner}.{noun}",
            default,
            N,
            f"Most {meaning} that {an} {owner} may have where no limit of its own is set; -1: unlimited",
            f"{owner.capitalize()} Defaults",
            minimum=-1,
        )
        for owner, an, factor in (("account", "an", 1), ("domain", "a", 2), ("project", "a", 1))
        for noun, default, meaning in (
            ("user.vms", str(20 * factor), "VMs"),
            ("public.ips", str(20 * factor), "public addresses"),
            ("volumes", str(20 * factor), "volumes"),
            ("snapshots", str(20 * factor), "snapshots"),
            ("templates", str(20 * factor), "templates"),
            ("networks", str(20 * factor), "networks"),
            ("vpcs", str(20 * factor), "VPCs"),
            ("cpus", str(40 * factor), "CPU cores"),
            ("memory", str(40960 * factor), "MiB of memory"),
            ("primary.storage", str(200 * factor), "GiB of primary storage"),
            ("secondary.storage", str(400 * factor), "GiB of secondary storage"),
        )
    ),
)

BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}
