"""An allocator request of Ganeti: groups, nodes and instances, parsed and checked (one file: one document).

Ganeti's doc/iallocator.rst, version 2 of the protocol, describes the request. Amounts are in MiB. Members that no
answer depends on, such as addresses, are not read. No schema library is used, because loading one takes longer than
an allocation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Members: TypeAlias = Mapping[str, Any]

VERSION = 2
EXCLUSION_PREFIX = "htools:iextags:"
LOCATION_PREFIX = "htools:nlocation:"
DESIRED_LOCATION_PREFIX = "htools:desiredlocation:"
MIGRATION_PREFIX = "htools:migration:"
ALLOWED_MIGRATION_PREFIX = "htools:allowmigration:"
ALLOC_POLICIES = ("preferred", "last_resort", "unallocable")
"""The allocation policies of groups, in the order in which groups are tried.

Groups with the last one get new instances only if a request names the group.
"""

ON_NODES = ("plain", "drbd")
"""The disk templates whose disks use the disk space of nodes."""


class MalformedDocument(Exception):
    """The document does not follow the protocol. The text names the member and the rule."""


@dataclass(frozen=True, slots=True)
class InstancePolicy:
    """The instance policy of a group.

    Attributes:
        bounds: pairs of minimum and maximum amounts; an instance must be within one of the pairs.
        templates: the allowed disk templates.
        vcpu_ratio: the most virtual CPUs per CPU of a node.
        spindle_ratio: the most spindle use per spindle of a node.
    """

    bounds: tuple[tuple[Mapping[str, int], Mapping[str, int]], ...]
    templates: frozenset[str]
    vcpu_ratio: float
    spindle_ratio: float


@dataclass(frozen=True, slots=True)
class Group:
    """A node group."""

    uuid: str
    name: str
    alloc_policy: str
    networks: frozenset[str]
    policy: InstancePolicy


@dataclass(frozen=True, slots=True)
class Node:
    """A node in the request.

    All amounts are 0 if the node is offline or accepts no instances, because Ganeti leaves them out.
    """

    name: str
    group: str
    online: bool
    takes_instances: bool
    exclusive_storage: bool
    tags: frozenset[str]
    total_memory: int
    free_memory: int
    total_disk: int
    free_disk: int
    total_cpus: int
    reserved_cpus: int
    spindle_count: int
    total_spindles: int
    free_spindles: int


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance that is placed or that must be placed.

    Attributes:
        disk_space: the MiB that the instance's disks use on each of its nodes; 0 for disks that are not on nodes.
        spindles: the spindles that the disks use on each node with exclusive storage.
        names_spindles: whether each disk has a number of spindles, which nodes with exclusive storage require.
        nodes: the primary node, and the secondary if there is one; empty for a new instance.
    """

    name: str
    memory: int
    vcpus: int
    spindle_use: int
    disk_space: int
    template: str
    tags: frozenset[str]
    disk_sizes: tuple[int, ...]
    spindles: int
    networks: frozenset[str]
    names_spindles: bool = True
    admin_state: str = "up"
    nodes: tuple[str, ...] = ()

    @property
    def mirrored(self) -> bool:
        """Whether the instance has, or needs, a secondary node."""
        return self.template == "drbd"

    @property
    def is_local(self) -> bool:
        """Whether the instance's disks use disk space of nodes."""
        return self.template in ON_NODES

    @property
    def movable(self) -> bool:
        """Whether another node can run the instance with its disks."""
        return self.template not in ("plain", "file")

    @property
    def uses_memory(self) -> bool:
        """Whether memory is reserved for the instance, which is the case unless it is marked offline."""
        return self.admin_state != "offline"


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed request.

    The function for the request's type parses the member ``request`` later.

    Attributes:
        exclusion_prefixes, location_prefixes, desired_location_prefixes, migration_prefixes: the prefixes of tags
            with a special meaning, which the cluster's tags define.
        allowed_migrations: pairs of migration tags: of the source and of the destination.
    """

    exclusion_prefixes: tuple[str, ...]
    location_prefixes: tuple[str, ...]
    desired_location_prefixes: tuple[str, ...]
    migration_prefixes: tuple[str, ...]
    allowed_migrations: frozenset[tuple[str, str]]
    groups: Mapping[str, Group]
    nodes: Mapping[str, Node]
    instances: Mapping[str, Instance]
    request: Members


def read_document(given: object) -> Document:
    """Return a request as a Document.

    ``given`` is the JSON document.

    Raises:
        MalformedDocument: a member is missing, has a wrong type, or names an object that does not exist.
    """
    members = _members(given, "the document")
    version = members.get("version", VERSION)
    if version != VERSION:
        raise MalformedDocument(f"version must be {VERSION}, not {version!r}")
    tags = strings(members, "cluster_tags", "the document")
    groups = {uuid: _group(uuid, one) for uuid, one in _named(members, "nodegroups")}
    nodes = {name: _node(name, one, groups) for name, one in _named(members, "nodes")}
    return Document(
        exclusion_prefixes=_prefixes(tags, EXCLUSION_PREFIX),
        location_prefixes=_prefixes(tags, LOCATION_PREFIX),
        desired_location_prefixes=tuple(
            tag.removeprefix(DESIRED_LOCATION_PREFIX)
            for tag in tags
            if tag.startswith(DESIRED_LOCATION_PREFIX) and tag != DESIRED_LOCATION_PREFIX
        ),
        migration_prefixes=_prefixes(tags, MIGRATION_PREFIX),
        allowed_migrations=frozenset(_allowed_migrations(tags)),
        groups=groups,
        nodes=nodes,
        instances={name: _placed(name, one, nodes) for name, one in _named(members, "instances")},
        request=get(members, "request", dict, "the document"),
    )


def wanted_instance(given: object) -> Instance:
    """Return the instance that the members of an allocation request describe.

    Raises:
        MalformedDocument: a member is missing or has a wrong type.
    """
    members = _members(given, "an instance")
    return _instance(get(members, "name", str, "an instance"), members)


def get(members: Members, key: str, kind: type[T], owner: str) -> T:
    """Return the member ``key``, which must exist and have the type ``kind``.

    Errors name ``owner``.

    Raises:
        MalformedDocument: the member is missing or has another type, or a number is too large.
    """
    if key not in members:
        raise MalformedDocument(f"invalid data for {owner}: key {key!r} not found, it has only {sorted(members)}")
    value = members[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise MalformedDocument(f"invalid data for {owner}: {key} must be of type {kind.__name__}, not {value!r}")
    if isinstance(value, int) and abs(value) > MOST:
        raise MalformedDocument(f"invalid data for {owner}: {key} must be at most {MOST}, not {value}")
    return value


MOST = 1 << 40
"""The largest allowed amount (an exbibyte in MiB), so that sums are exact."""


def strings(members: Members, key: str, owner: str) -> list[str]:
    """Return the member ``key``, which must be a list of strings.

    Errors name ``owner``.

    Raises:
        MalformedDocument: the member is missing or is not a list of strings.
    """
    found = get(members, key, list, owner)
    if not all(isinstance(one, str) for one in found):
        raise MalformedDocument(f"invalid data for {owner}: {key} must be a list of strings, not {found!r}")
    return found


def _members(given: object, owner: str) -> Members:
    if not isinstance(given, dict):
        raise MalformedDocument(f"{owner} must be a JSON object, not {given!r:.100}")
    return given


def _named(members: Members, key: str) -> Iterable[tuple[str, Members]]:
    for name, one in get(members, key, dict, "the document").items():
        yield name, _members(one, f"{key} {name!r}")


def _prefixes(tags: Iterable[str], prefix: str) -> tuple[str, ...]:
    return tuple(f"{tag.removeprefix(prefix)}:" for tag in tags if tag.startswith(prefix))


def _allowed_migrations(tags: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Yield pairs of node tags: the source's tag, and the destination's tag."""
    for tag in tags:
        source, is_pair, destination = tag.removeprefix(ALLOWED_MIGRATION_PREFIX).partition("::")
        if tag.startswith(ALLOWED_MIGRATION_PREFIX) and is_pair and "::" not in destination:
            yield source, destination


def _ratio(members: Members, key: str, owner: str) -> float:
    value = members.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise MalformedDocument(f"invalid data for {owner}: {key} must be a number of at least 0, not {value!r}")
    return float(value)


def _group(uuid: str, members: Members) -> Group:
    owner = f"group {uuid!r}"
    policy = get(members, "ipolicy", dict, owner)
    alloc_policy = get(members, "alloc_policy", str, owner)
    if alloc_policy not in ALLOC_POLICIES:
        among = ", ".join(ALLOC_POLICIES)
        raise MalformedDocument(
            f"invalid data for {owner}: alloc_policy must be one of {among}, not {alloc_policy!r}"
        )
    pairs = [_members(pair, f"minmax of {owner}") for pair in get(policy, "minmax", list, owner)]
    return Group(
        uuid=uuid,
        name=get(members, "name", str, owner),
        alloc_policy=alloc_policy,
        networks=frozenset(strings(members, "networks", owner)),
        policy=InstancePolicy(
            bounds=tuple((_spec(pair, "min", owner), _spec(pair, "max", owner)) for pair in pairs),
            templates=frozenset(strings(policy, "disk-templates", owner)),
            vcpu_ratio=_ratio(policy, "vcpu-ratio", owner),
            spindle_ratio=_ratio(policy, "spindle-ratio", owner),
        ),
    )


SPEC = ("memory-size", "cpu-count", "disk-size", "disk-count", "spindle-use")
"""The amounts that an instance policy limits and that allocators check.

Ganeti itself checks ``nic-count`` before it runs an allocator.
"""


def _spec(pair: Members, key: str, owner: str) -> Mapping[str, int]:
    bound = get(pair, key, dict, f"minmax of {owner}")
    return {name: get(bound, name, int, f"{key} of {owner}") for name in SPEC}


def _node(name: str, members: Members, groups: Mapping[str, Group]) -> Node:
    owner = f"node {name!r}"
    group = get(members, "group", str, owner)
    if group not in groups:
        raise MalformedDocument(f"invalid data for {owner}: group {group!r} is not among the nodegroups")
    online = not get(members, "offline", bool, owner)
    capable = members.get("vm_capable", True) is True
    parameters = get(members, "ndparams", dict, owner)

    def amount(key: str) -> int:
        return get(members, key, int, owner) if online and capable else 0

    return Node(
        name=name,
        group=group,
        online=online,
        takes_instances=capable and not get(members, "drained", bool, owner),
        exclusive_storage=get(parameters, "exclusive_storage", bool, owner),
        tags=frozenset(strings(members, "tags", owner)) if "tags" in members else frozenset(),
        total_memory=amount("total_memory"),
        free_memory=amount("free_memory"),
        total_disk=amount("total_disk"),
        free_disk=amount("free_disk"),
        total_cpus=amount("total_cpus"),
        reserved_cpus=amount("reserved_cpus"),
        spindle_count=get(parameters, "spindle_count", int, owner),
        total_spindles=amount("total_spindles" if "total_spindles" in members else "free_spindles"),
        free_spindles=amount("free_spindles"),
    )


def _placed(name: str, members: Members, nodes: Mapping[str, Node]) -> Instance:
    on = tuple(strings(members, "nodes", f"instance {name!r}"))
    missing = [node for node in on if node not in nodes]
    if missing or not on:
        raise MalformedDocument(
            f"invalid data for instance {name!r}: nodes must name nodes of the cluster, not {on}"
        )
    return _instance(name, members, on)


def _instance(name: str, members: Members, nodes: tuple[str, ...] = ()) -> Instance:
    owner = f"instance {name!r}"
    disks = [_members(disk, f"a disk of {owner}") for disk in get(members, "disks", list, owner)]
    nics = [_members(nic, f"a nic of {owner}") for nic in get(members, "nics", list, owner)]

    def amount(key: str) -> int:
        value = get(members, key, int, owner)
        if value < 0:
            raise MalformedDocument(f"invalid data for {owner}: {key} must be at least 0, not {value}")
        return value

    template, disk_space = get(members, "disk_template", str, owner), amount("disk_space_total")
    spindles = sum(get(disk, "spindles", int, owner) for disk in disks if disk.get("spindles") is not None)
    return Instance(
        name=name,
        memory=amount("memory"),
        vcpus=amount("vcpus"),
        spindle_use=amount("spindle_use"),
        disk_space=disk_space if template in ON_NODES else 0,
        template=template,
        tags=frozenset(strings(members, "tags", owner)),
        disk_sizes=tuple(get(disk, "size", int, owner) for disk in disks),
        spindles=spindles,
        names_spindles=all(disk.get("spindles") is not None for disk in disks),
        networks=frozenset(get(nic, "network", str, owner) for nic in nics if nic.get("network") is not None),
        admin_state=get(members, "admin_state", str, owner) if "admin_state" in members else "up",
        nodes=nodes,
    )
