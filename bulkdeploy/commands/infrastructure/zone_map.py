"""getZoneMap: one number for each host of a zone, in a response that stays small with 25,000 hosts."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import Exclusive, Needs, string, uuid
from bulkdeploy.declare.response_fields import objects, text, texts
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.services.ownership import OwnerParameters, visibility
from bulkdeploy.store.infrastructure import zone_map as store

USUAL_SHARE = "memoryallocated"
COUNTING = ("account", "projectid", "deploymentid")


def get_zone_map(call: Call) -> Mapping[str, Any]:
    """Return the clusters of a zone with one number for each host.

    Raises:
        InvalidParameter: the account does not exist.
        PermissionDenied: the account or project is outside the caller's reach.
    """
    share = call.text("by") or USUAL_SHARE
    zone = call.arguments["zoneid"]
    found = store.read_zone_map(call.connection, zone.id, share, _counted(call))
    return {"zoneid": zone.uuid, "by": share, "clusters": found}


def _counted(call: Call) -> store.CountedVms | None:
    """Return the VMs that the map counts per host, or None if the call names no VMs."""
    if not any(name in call.arguments for name in COUNTING):
        return None
    requested = OwnerParameters(
        account=call.text("account"), domain=call.ref("domainid"), project=call.ref("projectid"), by_id=True
    )
    owners = visibility(call.connection, call.caller, requested)
    return store.CountedVms(owners, call.ref_id("deploymentid"))


CLUSTER = (
    text("id", "the cluster"),
    text("name", "the name of the host"),
    text("podid", "the pod of the host"),
    text("podname", "the pod's name"),
    texts(
        "hosts",
        "the names of the hosts of the cluster, the oldest first; shares, states and vms have the same order",
    ),
    text("shares", "the share of each host in percent, separated by commas; -1: the host was not measured"),
    text(
        "states",
        "a letter for each host: u (up and enabled), d (disabled), m (in maintenance or preparing for it) or l "
        "(not up)",
    ),
    text("vms", "the number of the requested VMs on each host, separated by commas"),
)

COMMANDS: tuple[Command, ...] = (
    Command(
        name="getZoneMap",
        description="Returns all hosts of a zone by cluster with one number per host, for a heat map",
        handler=get_zone_map,
        shape=Shape.OBJECT,
        response=Response(
            "zonemap",
            (
                text("zoneid", "the zone"),
                text("by", "the share that the response contains: the value of the parameter by"),
                objects("clusters", "the clusters that have hosts, sorted by pod and name", CLUSTER),
            ),
        ),
        roles=frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN}),
        parameters=(
            uuid("zoneid", Entity.ZONE, "the zone", required=True),
            string(
                "by",
                "which number the response contains for each host: the allocated or the measured share of its "
                "memory or CPU; default: memoryallocated",
                choices=tuple(store.SHARES),
            ),
            string(
                "account", "count the VMs of this account on each host; domainid names the domain of the account"
            ),
            uuid("domainid", Entity.DOMAIN, "the domain of the account"),
            uuid("projectid", Entity.PROJECT, "count the VMs of this project on each host"),
            uuid("deploymentid", Entity.DEPLOYMENT, "count the VMs of this bulk deployment on each host"),
        ),
        rules=(Exclusive(COUNTING), Needs("domainid", "account")),
    ),
)
