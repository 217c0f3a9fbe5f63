"""Inventories made up by Hypothesis: any names, any numbers, everything optional sometimes given."""

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from bulkdeploy.domain.accounts import AccountState
from bulkdeploy.domain.inventory import Cluster, Dedication, Host, Inventory, Pod, StoragePool, Zone
from bulkdeploy.domain.inventory_catalog import DiskOffering, IpRange, Network, ServiceOffering, Template
from bulkdeploy.domain.inventory_owners import (
    ROOT,
    ROOT_ADMIN,
    Account,
    AccountName,
    AffinityGroup,
    Domain,
    SecurityGroup,
    SecurityGroupRule,
    User,
)
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.domain.topology import (
    AffinityType,
    AllocationState,
    HostResourceState,
    HostState,
    HypervisorType,
    NetworkType,
    PoolScope,
    StorageType,
    TemplateKind,
)

LETTERS = st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp"), exclude_characters="\ufeff")
WORDS = st.text(LETTERS, min_size=1, max_size=12)
NAMES = (
    st.builds("{} {}".format, WORDS, WORDS)
    | WORDS
    | st.sampled_from(["no", "null", "1.0", "~", "#x", "a: b", "- a"])
)
TAGS = st.lists(WORDS.filter(lambda word: "," not in word), unique=True, max_size=3).map(tuple)
DETAILS = st.dictionaries(NAMES, NAMES, max_size=2)
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff"), max_size=30)
DOMAINS = ("ROOT/one", "ROOT/one/two", "ROOT/dé")
ACCOUNTS = (AccountName("web", "ROOT/one"), AccountName("web", "ROOT/one/two"), AccountName("solo", "ROOT/dé"))
OWNERS = st.sampled_from((ROOT_ADMIN, *ACCOUNTS))
HOLDERS = st.none() | st.sampled_from([Dedication(domain=ROOT), Dedication(domain="ROOT/one", account="web")])
LIMITS = st.dictionaries(st.sampled_from(ResourceType), st.integers(-1, 2**40), max_size=3)
SIZES = st.integers(1, 2**50)


def unique(values: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    """A few of them, no two with one name in any capitals."""
    return st.lists(values, max_size=most, unique_by=lambda one: one.name.lower()).map(tuple)


RULES = st.builds(
    SecurityGroupRule,
    direction=st.sampled_from(["ingress", "egress"]),
    protocol=st.sampled_from(["tcp", "udp", "all", "47"]),
    start_port=st.just(22),
    end_port=st.integers(22, 65535),
    cidr=st.sampled_from(["0.0.0.0/0", "::/0", "10.1.2.3/8"]),
)
USERS = st.builds(
    User,
    username=st.just("user"),
    firstname=TEXTS,
    email=TEXTS,
    state=st.sampled_from(AccountState),
    password_hash=st.none() | st.just("$argon2id$v=19$hash"),
)


@st.composite
def accounts(draw: st.DrawFn) -> tuple[Account, ...]:
    """The three accounts, two of them with one name."""
    return tuple(
        Account(
            name=one.name,
            domain=one.domain,
            role=draw(NAMES.filter(lambda role: role != "Root Admin")),
            state=draw(st.sampled_from(AccountState)),
            limits=draw(LIMITS),
            users=tuple(draw(st.lists(USERS, max_size=1))),
            security_groups=draw(
                unique(
                    st.builds(
                        SecurityGroup, name=NAMES, description=TEXTS, rules=st.lists(RULES, max_size=2).map(tuple)
                    )
                )
            ),
            affinity_groups=draw(
                unique(st.builds(AffinityGroup, name=NAMES, type=st.sampled_from(AffinityType), description=TEXTS))
            ),
        )
        for one in ACCOUNTS
    )


FIXED = st.builds(
    ServiceOffering,
    name=NAMES,
    display_text=TEXTS,
    cpu_number=st.integers(1, 64),
    cpu_mhz=st.integers(1, 5000),
    memory_mib=st.integers(1, 2**20),
    root_disk_gib=st.none() | st.integers(1, 1000),
    storage_type=st.sampled_from(StorageType),
    storage_tags=TAGS,
    host_tags=TAGS,
    offer_ha=st.booleans(),
    domains=st.sets(st.sampled_from(DOMAINS)).map(lambda paths: tuple(sorted(paths))),
    zone_only=st.booleans(),
    details=DETAILS,
    sort_key=st.integers(-5, 5),
)
CUSTOM = st.builds(
    ServiceOffering,
    name=NAMES,
    display_text=TEXTS,
    cpu_mhz=st.none() | st.just(1000),
    min_cpu_number=st.just(1),
    max_cpu_number=st.integers(1, 8),
    dynamic_scaling=st.booleans(),
)
DISKS = st.builds(
    DiskOffering, name=NAMES, display_text=TEXTS, disk_gib=st.integers(1, 9), storage_tags=TAGS
) | st.builds(DiskOffering, name=NAMES, display_text=TEXTS, customized=st.just(value=True))
TEMPLATES = st.builds(
    Template,
    kind=st.just(TemplateKind.TEMPLATE),
    name=NAMES,
    display_text=TEXTS,
    owner=OWNERS,
    format=st.sampled_from(["QCOW2", "VHD", "RAW"]),
    hypervisor=st.none() | st.sampled_from(HypervisorType),
    size_bytes=SIZES,
    physical_size_bytes=SIZES,
    is_public=st.booleans(),
    bootable=st.booleans(),
    details=DETAILS,
    ready=st.booleans(),
    status=st.sampled_from(["Download Complete", "Not downloaded", "35% Downloaded"]),
    shared_with=st.sets(OWNERS).map(lambda some: tuple(sorted(some))),
)
ISOS = st.builds(
    Template,
    kind=st.just(TemplateKind.ISO),
    name=NAMES,
    display_text=TEXTS,
    format=st.just("ISO"),
    size_bytes=SIZES,
    physical_size_bytes=SIZES,
    dynamically_scalable=st.booleans(),
)
RANGES = (
    IpRange(start_ip="10.1.0.10", end_ip="10.1.0.20", gateway="10.1.0.1", netmask="255.255.0.0", vlan="7"),
    IpRange(start_ip="10.1.1.10", end_ip="10.1.1.20", gateway="10.1.1.1", netmask="255.255.255.0", vlan="8"),
)
NETWORKS = st.builds(
    Network,
    name=NAMES,
    display_text=TEXTS,
    offering=NAMES,
    owner=OWNERS,
    acl_type=st.sampled_from(["Domain", "Account"]),
    domain=st.sampled_from((ROOT, *DOMAINS)),
    cidr=st.just("10.1.0.0/16"),
    gateway=st.just("10.1.0.1"),
    vlan=st.just("7"),
    is_default=st.booleans(),
    ranges=st.sampled_from([(), RANGES[:1], RANGES]),
)


def pools(scope: PoolScope) -> st.SearchStrategy[StoragePool]:
    """Pools of a scope; names get a prefix later, so that no two are alike."""
    return st.builds(
        StoragePool,
        name=WORDS if scope is not PoolScope.HOST else st.sampled_from(["local", "ssd-1"]),
        scope=st.just(scope),
        capacity_bytes=st.integers(2**20, 2**50),
        pool_type=st.sampled_from(["NetworkFilesystem", "Filesystem", "EXT"]),
        tags=TAGS,
        path=st.none() | TEXTS,
    )


@st.composite
def clusters(draw: st.DrawFn, number: int) -> Cluster:
    """A cluster with hosts in a row, some alike and some not, with local pools."""
    count = draw(st.integers(0, 6))
    shapes = draw(st.lists(st.sampled_from([(4, ()), (8, ("a",))]), min_size=count, max_size=count))
    local = draw(unique(pools(PoolScope.HOST), 2))
    shared = draw(unique(pools(PoolScope.CLUSTER), 2))
    step = draw(st.sampled_from([1, 1, 2]))
    hosts = tuple(
        Host(
            name=f"h{number}-{at * step:02}",
            ip_address=f"10.0.{number}.{at + 1}",
            cpu_cores=cores,
            cpu_mhz=2000,
            memory_mib=draw(st.sampled_from([1024, 4096])),
            tags=tags,
            state=draw(st.sampled_from([HostState.UP, HostState.DOWN])),
            resource_state=draw(st.sampled_from([HostResourceState.ENABLED, HostResourceState.MAINTENANCE])),
            vms_limit=draw(st.sampled_from([None, 7])),
            details=draw(st.sampled_from([{}, {"rack": "1"}])),
            dedicated_to=draw(HOLDERS),
            storage_pools=tuple(_renamed(pool, f"h{number}-{at * step:02}-{pool.name}") for pool in local),
        )
        for at, (cores, tags) in enumerate(shapes)
    )
    return Cluster(
        name=f"cluster {number}",
        hypervisor=draw(st.sampled_from(HypervisorType)),
        allocation_state=draw(st.sampled_from(AllocationState)),
        cpu_overcommit=draw(
            st.just(Decimal(1)) | st.integers(1000, 100_000).map(lambda much: Decimal(much) / 1000)
        ),
        memory_overcommit=draw(st.sampled_from([Decimal(1), Decimal("1.5")])),
        dedicated_to=draw(HOLDERS),
        configuration=draw(st.sampled_from([{}, {"cluster.cpu.allocated.capacity.disablethreshold": "0.5"}])),
        hosts=hosts,
        storage_pools=tuple(_renamed(pool, f"c{number}-{pool.name}") for pool in shared),
    )


def _renamed(pool: StoragePool, name: str) -> StoragePool:
    return StoragePool(
        name=name,
        scope=pool.scope,
        capacity_bytes=pool.capacity_bytes,
        pool_type=pool.pool_type,
        tags=pool.tags,
        path=pool.path,
    )


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """Any inventory without running VMs."""
    zone_pools = draw(unique(pools(PoolScope.ZONE), 2))
    return Inventory(
        zone=Zone(
            name=draw(NAMES),
            description=draw(st.none() | TEXTS),
            network_type=NetworkType.ADVANCED,
            security_groups_enabled=draw(st.booleans()),
            local_storage_enabled=draw(st.booleans()),
            allocation_state=draw(st.sampled_from(AllocationState)),
            dns1=draw(st.sampled_from([None, "10.0.0.2"])),
            domain=draw(st.sampled_from([None, "ROOT/one"])),
            dedicated_to=draw(HOLDERS),
        ),
        configuration=draw(st.sampled_from([{}, {"start.retry": "3"}, {"cpu.overprovisioning.factor": "2"}])),
        domains=tuple(Domain(path=path, limits=draw(LIMITS)) for path in DOMAINS),
        accounts=draw(accounts()),
        service_offerings=draw(unique(FIXED | CUSTOM)),
        disk_offerings=draw(unique(DISKS)),
        templates=(*draw(unique(TEMPLATES)), *draw(unique(ISOS))),
        networks=draw(unique(NETWORKS)),
        pods=tuple(Pod(name=f"pod {at}", clusters=(draw(clusters(at)),)) for at in range(draw(st.integers(0, 2)))),
        storage_pools=tuple(_renamed(pool, f"z-{pool.name}") for pool in zone_pools),
    )
