"""Hosts for many VMs that exist, planned together as one batch. Nothing is locked or claimed.

VMs with equal needs are planned as one kind, as in a bulk deployment. Each VM's job claims its host later, and the
claim is checked then. VMs that move hold the hosts that they leave until they have arrived: the plan counts both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from bulkdeploy.placement.batch import plan_batch
from bulkdeploy.placement.catalog import PlannerNotInstalled
from bulkdeploy.placement.claimed_plans import add_members, after, with_members
from bulkdeploy.placement.model import Plan, Purpose, ZoneSnapshot
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.scheduling.need import AffinityMembers, PlacementNeed
from bulkdeploy.scheduling.place import BOUND, NoPlace, zone_as_seen_by
from bulkdeploy.scheduling.reasons import in_words
from bulkdeploy.scheduling.virtual_machine import read_vms_to_place
from bulkdeploy.store.configuration.configuration import Configuration, read_configuration


@dataclass(frozen=True, slots=True)
class AlikeVms:
    """VMs, by id, with one need and the same hosts that they must not get."""

    need: PlacementNeed
    avoided: frozenset[int]
    vm_ids: list[int]


def plan_together(
    connection: Connection,
    vms: Mapping[int, int | None],
    purpose: Purpose,
    forbidden: frozenset[int] = frozenset(),
) -> dict[int, int | NoPlace]:
    """Return the host that each VM gets, by ids, or why it gets none.

    Args:
        connection: in a transaction.
        vms: the host that each VM leaves, which it does not get; None if it leaves none.
        purpose: START or MOVE.
        forbidden: hosts that no VM gets.
    """
    configuration = read_configuration(connection)
    found: dict[int, int | NoPlace] = {}
    kinds: dict[tuple[PlacementNeed, frozenset[int]], AlikeVms] = {}
    groups: dict[int, Sequence[int]] = {}
    for vm_id, vm in read_vms_to_place(connection, configuration, list(vms)).items():
        if vm is None:
            found[vm_id] = BOUND
            continue
        groups[vm_id] = vm.need.affinity_group_ids
        need = replace(vm.need, purpose=purpose, vm_id=vm_id if vm.need.affinity_group_ids else None)
        left = vms[vm_id]
        avoided = forbidden if left is None or left in forbidden else forbidden | {left}
        kinds.setdefault((need, avoided), AlikeVms(need, avoided, [])).vm_ids.append(vm_id)
    members = AffinityMembers(connection, configuration, groups)
    for zone_id in sorted({kind.need.zone_id for kind in kinds.values()}):
        of_zone = [kind for kind in kinds.values() if kind.need.zone_id == zone_id]
        found |= _plan_zone(connection, configuration, of_zone, members)
    return found


def _plan_zone(
    connection: Connection, configuration: Configuration, kinds: Sequence[AlikeVms], members: AffinityMembers
) -> dict[int, int | NoPlace]:
    """Plan the VMs of a zone owner by owner, each owner's on what those before leave."""
    found: dict[int, int | NoPlace] = {}
    left: ZoneSnapshot | None = None
    placed: dict[int, Mapping[int, int]] = {}
    catalog = placement_catalog()
    for account_id in sorted({kind.need.owner.account_id for kind in kinds}):
        of_owner = [kind for kind in kinds if kind.need.owner.account_id == account_id]
        snapshot, requests = zone_as_seen_by(
            connection,
            configuration,
            [(kind.need, len(kind.vm_ids)) for kind in of_owner],
            seed=None,
            lock=False,
            beside=[kind.need for kind in kinds if kind.need.owner.account_id != account_id],
            known=left,
            members=members,
        )
        requests = [
            with_members(replace(request, avoid_host_ids=kind.avoided), placed)
            for kind, request in zip(of_owner, requests, strict=True)
        ]
        left = snapshot
        try:
            plans = plan_batch(snapshot, requests, catalog).plans
        except PlannerNotInstalled as missing:
            found |= {vm_id: NoPlace(str(missing)) for kind in of_owner for vm_id in kind.vm_ids}
            continue
        for kind, request, plan in zip(of_owner, requests, plans, strict=True):
            found |= _hosts(kind, plan)
            left = after(left, request, plan)
            add_members(request, plan, placed)
    return found


def _hosts(kind: AlikeVms, plan: Plan) -> dict[int, int | NoPlace]:
    hosts: list[int] = plan.host_ids.tolist()
    found: dict[int, int | NoPlace] = dict(zip(kind.vm_ids, hosts, strict=False))
    if len(hosts) < len(kind.vm_ids):
        excluded = plan.limiting
        words = ("no host has capacity for it", in_words(excluded))
        no_place = NoPlace("; ".join(word for word in words if word), excluded)
        found |= dict.fromkeys(kind.vm_ids[len(hosts) :], no_place)
    return found
