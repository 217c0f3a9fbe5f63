"""Plans of dry runs that are applied later. A plan is applied exactly as it was shown, or the call fails."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.deployments.deployment import DeployCall
from bulkdeploy.domain.errors import InvalidParameter, PlanStale
from bulkdeploy.placement.standing import Lacking, Places
from bulkdeploy.scheduling.allocators import BUILTIN
from bulkdeploy.scheduling.need import PlacementNeed
from bulkdeploy.scheduling.place import Planned, apply_in_zone
from bulkdeploy.scheduling.reasons import why_not
from bulkdeploy.store.configuration.configurations import Configuration
from bulkdeploy.store.deployments import plans as store

MOST_NAMED = 5
UNITS = {"storage pool": "bytes"}


def places_of(planned: Planned) -> dict[str, Any]:
    """Return the data of a kind's plan that is stored for a later call: its hosts, pools and allocator."""
    made = planned.plan
    pool_ids = np.ascontiguousarray(made.pool_ids)
    return {
        "requested": made.requested,
        "host_ids": made.host_ids,
        "pool_ids": pool_ids,
        "allocator": planned.allocator,
    }


def kept_plan(connection: Connection, caller: Caller, index: int, fingerprint: bytes) -> list[dict[str, Any]]:
    """Return the stored plan that a dry run of an equal call showed to this user.

    Raises:
        InvalidParameter: there is no such plan, or the plan is for a call with other parameters.
    """
    found = store.find_plan(connection, caller.user_id, index)
    if found is None:
        rule = (
            f"this user has no such plan; plans are stored for {store.KEPT_HOURS} hours,"
            " and only for the user who requested the dry run"
        )
        raise InvalidParameter("planindex", index, rule)
    planned, kept = found
    if planned != fingerprint:
        raise InvalidParameter("planindex", index, "the plan belongs to a call with other parameters")
    return kept


def shown_plan(
    connection: Connection,
    configuration: Configuration,
    call: DeployCall,
    kinds: Sequence[tuple[PlacementNeed, int]],
) -> list[Planned]:
    """Return the plan that an earlier dry run of the call stored, checked against the present state.

    Raises:
        InvalidParameter: there is no such plan, or the plan is for a call with other parameters.
        PlanStale: a host, cluster or pool has less free capacity than the plan needs; only root admins get its
            name.
    """
    index, counts = call.shared.plan_index or 0, [count for _, count in kinds]
    kept = kept_plan(connection, call.caller, index, call.shared.plan_fingerprint)
    if [each["requested"] for each in kept] != counts:
        raise PlanStale(index, ["limits or addresses leave another number of VMs"])
    places = [(need, _places(each, len(need.disks))) for (need, _), each in zip(kinds, kept, strict=True)]
    planned = apply_in_zone(connection, configuration, places, counts)
    lacking = [each for each in planned if isinstance(each, Lacking)]
    if lacking:
        raise PlanStale(index, _named(connection, lacking) if call.caller.is_root_admin else ())
    chose = [each.get("allocator", BUILTIN) for each in kept]
    return [
        replace(each, allocator=allocator)
        for each, allocator in zip(planned, chose, strict=False)
        if isinstance(each, Planned)
    ]


def _places(kept: Mapping[str, Any], disks: int) -> Places:
    host_ids = np.array(kept["host_ids"], dtype=np.int64)
    return Places(host_ids, np.array(kept["pool_ids"], dtype=np.int64).reshape(len(host_ids), disks))


def _named(connection: Connection, lacking: Sequence[Lacking]) -> list[str]:
    said = []
    for each in lacking[:MOST_NAMED]:
        names = store.names_of(connection, each.noun, [each.id])
        unit = UNITS.get(each.noun, "VMs")
        name = names.get(each.id, each.id)
        why = f" ({why_not(each.reason)})" if each.reason is not None else ""
        most = each.capacity or "none"
        said.append(f"{each.noun} {name} has room for {most} of the {each.needed} {unit} planned there{why}")
    more = len(lacking) - MOST_NAMED
    return [*said, f"and {more} more"] if more > 0 else said
