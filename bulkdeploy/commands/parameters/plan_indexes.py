"""The indexes of stored plans: their response fields, and the fingerprints that identify equal calls."""

import hashlib
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.response_fields import number, objects, text, texts
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.store.followed_clouds import picture_age_s

NOT_FINGERPRINTED = frozenset({"requesttoken", "customjobid"})
NOT_PLANNED = frozenset({"dryrun", "summary", "planindex", "hostids"})
"""Parameters in which a call that applies a plan may differ from its dry run."""

PLACED = (
    number(
        "inventoryage",
        "the age in seconds of the inventory that was read from the followed CloudStack; absent if no "
        "CloudStack is followed",
    ),
    number(
        "index",
        "the index of the plan. Send it as planindex instead of dryrun to apply exactly this plan. The plan is "
        "kept for one day",
    ),
    objects(
        "placedhosts",
        "the hosts that get VMs, in descending order of the number of VMs; absent with summary",
        (
            text("hostid", "the host"),
            text("hostname", "the name of the host"),
            text("clusterid", "the cluster of the host"),
            text("clustername", "the cluster's name"),
            text("podid", "the cluster's pod"),
            number("count", "the number of VMs that the host gets"),
            texts("pools", "the storage pools of the volumes of these VMs"),
        ),
        ROOT_ADMIN_ONLY,
    ),
)


def inventory_age(connection: Connection) -> int | None:
    """Return the age of the upstream CloudStack's inventory in seconds, or None if no CloudStack is followed."""
    age_s = picture_age_s(connection)
    return None if age_s is None else int(age_s)


def fingerprints(arguments: Mapping[str, Any]) -> dict[str, bytes]:
    """Return two fingerprints of a call's arguments.

    ``fingerprint`` is compared between calls with the same request token. ``plan_fingerprint`` is compared with
    that of the dry run whose plan the call applies.
    """
    plan = _fingerprint(arguments, NOT_PLANNED)
    return {"fingerprint": _fingerprint(arguments), "plan_fingerprint": plan}


def _fingerprint(arguments: Mapping[str, Any], without: frozenset[str] = frozenset()) -> bytes:
    """Return the hash of all parameters of a deploy call, without the request token and the names in ``without``.

    Entities are hashed by their ids, so a renamed or deleted entity does not change the fingerprint.
    """
    parts = [
        f"{name}={_plain(arguments[name])!r}"
        for name in sorted(arguments)
        if name not in NOT_FINGERPRINTED | without
    ]
    return hashlib.sha256("\n".join(parts).encode()).digest()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_plain(part) for part in value)
    if isinstance(value, dict):
        return sorted((key, _plain(part)) for key, part in value.items())
    return (value.entity.name, value.id) if isinstance(value, EntityRef) else value
