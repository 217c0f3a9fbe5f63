"""Tests of whether an import and the driver can work with a CloudStack. Nothing is changed there."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import uuid4

from bulkdeploy.cloudstack.client import INVALID, OF_EACH_OWNER, CallRefused, Client, NotAnswered, Row, rows_in
from bulkdeploy.drivers.need import Need
from bulkdeploy.manage.upstream.events import EVENTS
from bulkdeploy.manage.upstream.reading import OWNED_BY_PROJECTS, PLAIN, WITHOUT_PAGES
from bulkdeploy.manage.upstream.sections import SOURCES, hosts_of_pool, hypervisor_of

OLDEST, NEWEST = (4, 18), (4, 22)
ROOT_ADMIN = "Use the key of a user whose account is of type root admin and whose role allows these calls"
AN_API = (
    "Use the URL of the CloudStack's API, such as https://cloud.example.org/client/api."
    " If the system does not trust"
    " its certificate, name the file with the CA's certificates by --ca-file"
)
CHANGING: Mapping[str, tuple[str, ...]] = {
    "deployVirtualMachine": ("zoneid", "serviceofferingid", "templateid"),
    "startVirtualMachine": ("id",),
    "stopVirtualMachine": ("id",),
    "destroyVirtualMachine": ("id",),
    "expungeVirtualMachine": ("id",),
    "migrateVirtualMachine": ("virtualmachineid", "hostid"),
    "scaleVirtualMachine": ("id", "serviceofferingid"),
    "createVolume": ("zoneid", "diskofferingid"),
    "attachVolume": ("id", "virtualmachineid"),
    "detachVolume": ("id",),
    "resizeVolume": ("id",),
    "deleteVolume": ("id",),
    "addNicToVirtualMachine": ("virtualmachineid", "networkid"),
    "removeNicFromVirtualMachine": ("virtualmachineid", "nicid"),
    "resetPasswordForVirtualMachine": ("id",),
    "resetSSHKeyForVirtualMachine": ("id",),
    "queryAsyncJobResult": ("jobid",),
}
"""The calls of the driver that are not lists, and the parameters of each that name things.

``destroyVirtualMachine`` with ``expunge`` needs the permission of ``expungeVirtualMachine``
(UserVmManagerImpl.checkExpungeVmPermission).
"""

ROOT_ADMIN_TYPE = 1
"""``accounttype`` of root admins. CloudStack accepts ids that the caller chooses from root admins only."""


def check_cloudstack(client: Client) -> Iterator[Need]:
    """Test everything that an import and the driver need, and yield each result.

    A failed test does not end the checks.

    The checks end early if the keys are wrong or the release is not supported. Nothing is changed: each changing
    call names ids that do not exist, so CloudStack rejects the call after it has checked the role.
    """
    try:
        yield from _needs(client)
    except NotAnswered as error:
        yield Need("an answer", str(error), AN_API)


def _needs(client: Client) -> Iterator[Need]:
    try:
        answer = client.call("listCapabilities")
    except CallRefused as error:
        yield Need(
            "the keys",
            error.text,
            "Use the API key and the secret key of the same user, and synchronize the clocks of both machines",
        )
        return
    yield Need("the keys", f"are those of a user of {client.access.url}")
    version = _version(answer.get("capability") or {})
    yield version
    if version.remedy is None:
        yield _root_admin(client)
        yield from _lists(client)
        yield from _settings(client)
        yield from _inventory(client)
        yield from _changes(client)


SETTINGS = {
    "allow.deploy.vm.if.deploy.on.given.host.fails": (
        "false",
        "With true CloudStack deploys VMs on other hosts than planned; these are removed and planned again",
    ),
}
"""Global settings of CloudStack that bulkdeploy assumes to have these values, and what happens otherwise."""


def _settings(client: Client) -> Iterator[Need]:
    """Compare settings with the values that an import assumes.

    A setting that a release lacks has the assumed value.
    """
    for name, (assumed, otherwise) in SETTINGS.items():
        try:
            rows = rows_in(client.call("listConfigurations", {"name": name}))
        except CallRefused as error:
            yield Need("listConfigurations", f"{error.code} {error.text}", ROOT_ADMIN)
            return
        value = next((str(row.get("value")) for row in rows if row.get("name") == name), assumed)
        remedy = None if value == assumed else f"Set {name} to {assumed} in CloudStack. {otherwise}"
        yield Need(name, f"is {value}", remedy)


def _version(capability: Row) -> Need:
    text = str(capability.get("cloudstackversion", ""))
    found = re.match(r"(\d+)\.(\d+)", text)
    if found is None or not OLDEST <= (int(found[1]), int(found[2])) <= NEWEST:
        versions = " to ".join(".".join(map(str, version)) for version in (OLDEST, NEWEST))
        return Need("its version", text or "is unknown", f"Only versions {versions} were tested")
    return Need("its version", text)


def _lists(client: Client) -> Iterator[Need]:
    wanted = {source.command: (source.parameters, source.of_projects) for source in SOURCES}
    wanted |= {command: (parameters, command in OWNED_BY_PROJECTS) for command, parameters in PLAIN.items()}
    wanted |= {EVENTS: ({}, True)}
    for command, (parameters, of_projects) in wanted.items():
        page = {} if command in WITHOUT_PAGES else {"page": "1", "pagesize": "1"}
        for more in OF_EACH_OWNER if of_projects else ({},):
            try:
                answer = client.call(command, {**parameters, **more, **page})
            except CallRefused as error:
                yield Need(command, f"{error.code} {error.text}", ROOT_ADMIN)
                break
        else:
            yield Need(command, f"{answer.get('count', len(rows_in(answer)))} rows")


def _root_admin(client: Client) -> Need:
    """Check that the key belongs to a root admin.

    CloudStack lets only root admins choose the ids of VMs and jobs.
    """
    name = "the account of the key"
    try:
        answer = client.call("getUser", {"userapikey": client.access.api_key})
    except CallRefused as error:
        return Need(name, f"{error.code} {error.text}", ROOT_ADMIN)
    user = answer.get("user")
    kind = user.get("accounttype") if isinstance(user, dict) else None
    if str(kind) == str(ROOT_ADMIN_TYPE):
        return Need(name, "is of type root admin")
    return Need(name, f"has the account type {kind}, which may not choose ids of VMs", ROOT_ADMIN)


def _inventory(client: Client) -> Iterator[Need]:
    """Check the fields of hosts and storage pools that an import needs.

    If CloudStack rejects a list call, nothing is yielded here, because another check reports this.
    """
    try:
        clusters = client.list_all("listClusters").rows
        hosts = client.list_all("listHosts", {"type": "Routing"}).rows
        pools = client.list_all("listStoragePools").rows
    except CallRefused:
        return
    types = sorted({hypervisor_of(row, "hypervisortype") for row in clusters})
    lines = ", ".join(f'{one} = "cloudstack"' for one in types)
    yield Need("hypervisor types", f"[drivers] needs {lines}" if lines else "there are no clusters")
    yield _lacking(
        "the capacity of hosts", hosts, CAPACITY_FIELDS, "Wait until the agents of these hosts are connected"
    )
    local = [row for row in pools if row.get("scope") == "HOST"]
    homeless = [row for row in local if len(hosts_of_pool(row, hosts)) != 1]
    yield Need(
        "local storage pools",
        f"{len(local) - len(homeless)} of {len(local)} have a host with their address{_named(homeless)}",
        "These pools are left out by an import: their address must be that of one host in their cluster"
        if homeless
        else None,
    )


CONNECT = "Wait until the agents of these hosts are connected, because CloudStack gets capacities from them"
CAPACITY_FIELDS = ("clusterid", "ipaddress", "cpunumber", "cpuspeed", "memorytotal")


def _lacking(name: str, rows: Iterable[Row], fields: Iterable[str], remedy: str) -> Need:
    rows = list(rows)
    lacking = [row for row in rows if any(row.get(field) in (None, "") for field in fields)]
    text = f"{len(rows) - len(lacking)} of {len(rows)} have {', '.join(fields)}{_named(lacking)}"
    return Need(name, text, remedy if lacking else None)


def _named(rows: Sequence[Row]) -> str:
    """Return up to three names of rows, to end a sentence with."""
    names = ", ".join(str(row.get("name")) for row in rows[:3])
    return f"; not {names}{f' and {len(rows) - 3} more' if len(rows) > 3 else ''}" if rows else ""


def _changes(client: Client) -> Iterator[Need]:
    """Try each changing call with ids that do not exist.

    CloudStack checks the role first (ApiServer.verifyRequest), then the ids (ParamProcessWorker): a call that the
    role allows fails with 431.
    """
    for command, parameters in CHANGING.items():
        try:
            client.call(command, {name: str(uuid4()) for name in parameters})
        except CallRefused as error:
            if error.code != INVALID:
                yield Need(command, f"{error.code} {error.text}", ROOT_ADMIN)
                continue
        yield Need(command, "is allowed")
