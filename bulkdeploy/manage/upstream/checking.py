"""Trying a CloudStack, call by call, without changing anything: what an import and the driver need."""

import re
from collections.abc import Iterator

from bulkdeploy.cloudstack.client import CallRefused, Client, NotAnswered, Row, rows_in
from bulkdeploy.drivers.need import Need
from bulkdeploy.manage.upstream.events import EVENTS
from bulkdeploy.manage.upstream.reading import OF_PROJECTS, PLAIN, WITHOUT_PAGES
from bulkdeploy.manage.upstream.sections import SOURCES

OLDEST, NEWEST = (4, 18), (4, 22)
ROOT_ADMIN = "Give the key of a user whose account is of type root admin and whose role allows these calls"
AN_API = (
    "Give the url of its API, such as https://cloud.example.org/client/api, and with --ca-file the certificates"
    " that vouch for it where the system's do not"
)
CHANGING = (
    *("deployVirtualMachine", "startVirtualMachine", "stopVirtualMachine", "destroyVirtualMachine"),
    "expungeVirtualMachine",
    *("migrateVirtualMachine", "scaleVirtualMachine", "createVolume", "attachVolume", "detachVolume"),
    *("resizeVolume", "deleteVolume", "addNicToVirtualMachine", "removeNicFromVirtualMachine"),
    *("resetPasswordForVirtualMachine", "resetSSHKeyForVirtualMachine", "queryAsyncJobResult"),
)
"""What the driver calls: looked up in listApis, never tried.

``destroyVirtualMachine`` with ``expunge`` needs the permission of ``expungeVirtualMachine``
(UserVmManagerImpl.checkExpungeVmPermission).
"""


def check_cloudstack(client: Client) -> Iterator[Need]:
    """Try each need, and tell all that are missing; after wrong keys or another version nothing more is tried.

    Only list calls are made, for one row each.
    """
    try:
        yield from _needs(client)
    except NotAnswered as error:
        yield Need("an answer", str(error), AN_API)


def _needs(client: Client) -> Iterator[Need]:
    try:
        answer = client.call("listCapabilities")
    except CallRefused as error:
        yield Need("the keys", error.text, "Give the API key and the secret key of one user, and set both clocks")
        return
    yield Need("the keys", f"are those of a user of {client.access.url}")
    version = _version(answer.get("capability") or {})
    yield version
    if version.remedy is None:
        yield from _lists(client)
        yield from _settings(client)
        yield _apis(client)


SETTINGS = {
    "allow.deploy.vm.if.deploy.on.given.host.fails": (
        "false",
        "With true CloudStack deploys VMs on other hosts than planned; these are removed and planned again",
    ),
}
"""Global settings of CloudStack that bulkdeploy assumes to have these values, and what happens otherwise."""


def _settings(client: Client) -> Iterator[Need]:
    """Compare settings with what is assumed. A setting that a release does not have is as assumed."""
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
        return Need("its version", text or "is not told", f"Calls are those of {versions}; nothing else was tried")
    return Need("its version", text)


def _lists(client: Client) -> Iterator[Need]:
    wanted = {source.command: (source.parameters, source.of_projects) for source in SOURCES}
    wanted |= {command: (parameters, command in OF_PROJECTS) for command, parameters in PLAIN.items()}
    wanted |= {EVENTS: ({"listall": "true"}, True)}
    for command, (parameters, of_projects) in wanted.items():
        page = {} if command in WITHOUT_PAGES else {"page": "1", "pagesize": "1"}
        for more in ({}, {"projectid": "-1"}) if of_projects else ({},):
            try:
                answer = client.call(command, {**parameters, **more, **page})
            except CallRefused as error:
                yield Need(command, f"{error.code} {error.text}", ROOT_ADMIN)
                break
        else:
            yield Need(command, f"{answer.get('count', len(rows_in(answer)))} rows")


def _apis(client: Client) -> Need:
    try:
        known = {str(row.get("name")) for row in rows_in(client.call("listApis"))}
    except CallRefused as error:
        return Need("listApis", f"{error.code} {error.text}", ROOT_ADMIN)
    missing = [command for command in CHANGING if command not in known]
    if missing:
        return Need("what is called to deploy", f"{', '.join(missing)} cannot be called", ROOT_ADMIN)
    return Need("what is called to deploy", f"{len(CHANGING)} calls are allowed; none was made")
