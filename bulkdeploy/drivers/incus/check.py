"""The checks of ``bulkdeploy check incus``: whether the members of a cluster can be hosts."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from bulkdeploy.drivers.exchanges.cluster_http import NotAnswered
from bulkdeploy.drivers.incus.driver import access_of
from bulkdeploy.drivers.incus.events import open_events
from bulkdeploy.drivers.incus.options import IncusOptions
from bulkdeploy.drivers.incus.rest import Answer, Incus, Refused, path_of
from bulkdeploy.drivers.need import Need

PATIENCE_S = 30.0
OLDEST = "6.0"


def check_cluster(options: IncusOptions) -> Iterator[Need]:
    """Check everything that the driver needs, and yield the result of each check.

    Some failures end the check early. Objects that are created for the check are deleted.
    """
    incus = Incus(access_of(options))
    try:
        yield from _needs(incus, options)
    except (NotAnswered, Refused) as error:
        yield Need(
            "connection", str(error), "name every member's URL in driver.incus.urls; see docs/how-to/incus.md"
        )
    finally:
        incus.close()


def _needs(incus: Incus, options: IncusOptions) -> Iterator[Need]:
    def get(*path: str, **query: Any) -> Answer:
        return incus.send("GET", path_of(*path), timeout_s=PATIENCE_S, **query)

    server = get().value
    environment = server.get("environment") or {}
    yield Need("connection", incus.access.urls[0])
    if server["auth"] != "trusted":
        yield Need("trust", server["auth"], "on a member: incus config trust add-certificate CLIENT.crt")
        return
    yield Need("trust", f"Incus {environment['server_version']}")
    if environment["server_clustered"]:
        for member in get("cluster", "members", recursion=1).value:
            is_there = member["status"] == "Online"
            remedy = (
                None if is_there else "start incus.service on the member, or remove the member from the cluster"
            )
            yield Need(f"member {member['server_name']}", f"{member['status']}, {member['message']}", remedy)
    else:
        yield Need(f"server {environment['server_name']}", "the server is not clustered and is the only host")
    pools = {str(one["name"]): one for one in get("storage-pools", recursion=1).value or ()}
    for name in sorted({*options.storage_pools.values(), *filter(None, [options.local_pool])}):
        if name not in pools:
            yield Need(f"storage pool {name}", f"not among {', '.join(pools) or 'none'}", "incus storage create")
            return
        yield Need(f"storage pool {name}", str(pools[name]["driver"]))
    if options.network_kind == "managed" and "{" not in options.network.replace("{label}", ""):
        name = options.network.format(label=options.default_label)
        networks = [str(one["name"]) for one in get("networks", recursion=1).value or () if one["managed"]]
        remedy = (
            None if name in networks else "incus network create, or name another with driver.incus.default_label"
        )
        yield Need(f"network {name}", "found" if remedy is None else f"not among {', '.join(networks)}", remedy)
    for template, image in sorted(options.images.items()):
        yield _image(incus, template, image)
    yield _events(incus)
    yield _compare_and_set(incus)


def _events(incus: Incus) -> Need:
    """Check that events can be received. Without events, ended guests are found only by polling, seconds later."""
    try:
        open_events(incus.access, timeout_s=PATIENCE_S).close()
    except NotAnswered as error:
        return Need("events", str(error), "allow websockets to the members, and allow the client to receive events")
    return Need("events", "received")


def _image(incus: Incus, template: str, image: str) -> Need:
    for where in (path_of("images", "aliases", image), path_of("images", image)):
        try:
            incus.send("GET", where, timeout_s=PATIENCE_S)
        except Refused:
            continue
        return Need(f"image of template {template}", image)
    return Need(
        f"image of template {template}", f"there is no {image}", "incus image copy images:... local: --alias"
    )


def _compare_and_set(incus: Incus) -> Need:
    """Check that Incus rejects a change under an outdated tag.

    An instance without disks is created, changed twice under one tag, and deleted.
    """
    name = f"bulkdeploy-check-{uuid4()}"
    where = path_of("instances", name)
    made = {"name": name, "source": {"type": "none"}, "profiles": [], "devices": {}, "config": {}}
    root = incus.send("GET", path_of("storage-pools"), timeout_s=PATIENCE_S).value
    if root:
        pool = str(root[0]).rpartition("/")[2]
        made["devices"] = {"root": {"type": "disk", "path": "/", "pool": pool}}
    incus.run("POST", path_of("instances"), made, timeout_s=PATIENCE_S)
    try:
        seen = incus.send("GET", where, timeout_s=PATIENCE_S)
        for number in range(2):
            changed = {"config": {"user.bulkdeploy.check": str(number)}}
            try:
                incus.send("PATCH", where, changed, timeout_s=PATIENCE_S, if_match=seen.etag)
            except Refused:
                return Need("fences", "a change under an old tag is rejected")
        return Need("fences", "a change under an old tag is accepted", f"Incus {OLDEST} or newer is needed")
    finally:
        incus.run("DELETE", where, timeout_s=PATIENCE_S)
