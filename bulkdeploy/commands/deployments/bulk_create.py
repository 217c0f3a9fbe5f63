"""bulkCreateVirtualMachines: deploys many different VMs with one call (one file: one command and its response).

CloudStack does not have this command; Ganeti's bulk creation is similar. An entry of the list has the parameters of
deployVirtualMachine, except those that are given once for the whole call.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.deployments.deploy_calls import (
    PLAN_FIELDS,
    deploy_call_of,
    deploy_request,
    named_nics,
    plan_row,
)
from bulkdeploy.commands.deployments.recorded_calls import MANAGED, bound_call
from bulkdeploy.commands.deployments.responses import DEPLOYMENT_ERRORS
from bulkdeploy.commands.jobs.responses import ASYNC_JOB
from bulkdeploy.commands.parameters.custom_ids import CUSTOM_ID
from bulkdeploy.commands.parameters.deploy_parameters import OF_ANY_VM, OF_ONE_VM, RULES_OF_ONE_VM, UNSUPPORTED
from bulkdeploy.commands.parameters.plan_indexes import PLACED, fingerprints
from bulkdeploy.commands.unsupported import NO_CUSTOM_IDS
from bulkdeploy.declare.binding import Binder, Found, Kinds, Lookup
from bulkdeploy.declare.command import Command, Instead
from bulkdeploy.declare.parameters import boolean, entries, integer, string
from bulkdeploy.declare.response_fields import number, objects, text, texts
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.deployments.deployment import DeployCall, DeployRequest, NamedVm
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import (
    InvalidCombination,
    InvalidParameter,
    PlanStale,
)
from bulkdeploy.services.deployments.bulk_deployments import deployed_places, job_rows, planned_places
from bulkdeploy.services.deployments.deploy import DryRun, deploy
from bulkdeploy.services.deployments.deployment_names import LONGEST_PREFIX
from bulkdeploy.services.deployments.list_entries import OF_THE_CALL, named_entry
from bulkdeploy.store.rows.entities import resolve_known

LIST = "virtualmachines"
MOST_ENTRIES = 10_000
OF_EACH = ("name", "displayname")
"""Parameters in which entries of the same configuration may differ."""

SHARED = tuple(parameter for parameter in OF_ANY_VM if parameter.name in OF_THE_CALL)

ENTRY = Binder(
    Command(
        name="bulkCreateVirtualMachines",
        description="an entry of virtualmachines",
        shape=Shape.OBJECT,
        changes_state=True,
        parameters=(
            *(parameter for parameter in OF_ANY_VM if parameter not in SHARED and parameter.name != "hostids"),
            *OF_ONE_VM,
            integer("count", "the number of VMs of this entry, with generated names; default: 1", minimum=1),
            string("nameprefix", "the prefix of generated names: prefix-1, prefix-2, ...", length=LONGEST_PREFIX),
        ),
        unsupported={**UNSUPPORTED, CUSTOM_ID: NO_CUSTOM_IDS},
        rules=RULES_OF_ONE_VM,
        handler=lambda _: None,
    )
)
"""Parses an entry like the parameters of a call."""

PLACE_FIELDS = (
    number("index", "the index of the VM's entry in virtualmachines"),
    text("name", "the host name of the VM; in a plan, absent if the entry gives no name"),
    text("virtualmachineid", "the VM"),
    text("jobid", "the job that deploys the VM"),
    text("hostid", "the host that the VM is placed on", ROOT_ADMIN_ONLY),
    text("hostname", "the host's name", ROOT_ADMIN_ONLY),
    text("clusterid", "the host's cluster", ROOT_ADMIN_ONLY),
    text("podid", "the cluster's pod", ROOT_ADMIN_ONLY),
    texts("pools", "the storage pools of the VM's volumes, starting with that of the root disk", ROOT_ADMIN_ONLY),
)

FAILED = objects(
    "failed",
    "with partial: the entries of virtualmachines that were left out",
    (
        number("index", "the index of the entry in virtualmachines"),
        text("name", "the name that the entry gives"),
        number("errorcode", "the error code with which the call would be rejected without partial"),
        text(
            "errortext",
            "why the entry was left out; if capacity is missing, how much is missing on the host with the "
            "least shortage",
        ),
    ),
)

CREATED = Response(
    "virtualmachines",
    (
        number("count", "the number of VMs that are deployed"),
        objects(
            "asyncjobs",
            "the jobs that deploy the VMs, in the order of the entries of virtualmachines",
            ASYNC_JOB.fields,
        ),
        objects(
            "placements", "the placement of each VM, in the order of the entries of virtualmachines", PLACE_FIELDS
        ),
        FAILED,
    ),
)

PLAN = Response(
    "plan",
    (
        number("count", "the number of VMs that the call requests"),
        number("fits", "the number of VMs that would be deployed"),
        number(
            "capacity",
            "the capacity for the kind of VM that fits most often, if only VMs of this kind were deployed",
            ROOT_ADMIN_ONLY,
        ),
        *PLAN_FIELDS,
        *PLACED,
        objects(
            "placements",
            "the planned placement of each VM, in the order of the entries of virtualmachines",
            PLACE_FIELDS,
        ),
        FAILED,
    ),
)


def bulk_create_virtual_machines(call: Call) -> Mapping[str, Any] | Instead:
    """Deploy all VMs of the list.

    Returns their jobs and hosts in the order of the list, or the plan of a dry run.
    """
    (result,) = deploy(call.connection, call.system, [_list_call(call)])
    if isinstance(result, DryRun):
        row = plan_row(call, result)
        places = planned_places(call.connection, result.parts)
        return Instead(PLAN, {**row, "placements": places, "failed": result.failures})
    count = len(result.job_uuids)
    return {
        "count": count,
        "asyncjobs": list(job_rows(call.caller, result, range(count)).values()),
        "placements": deployed_places(call.connection, result),
        "failed": result.listed["failed"],
    }


def _list_call(call: Call) -> DeployCall:
    requests = _requests(call, call.text("requesttoken"))
    return deploy_call_of(call, requests, listed=True, partial=call.flag("partial"))


def _repeat(call: Call, recorded: Mapping[str, str], before: int, more: int) -> DeployCall:
    """Return a deploy call for ``more`` VMs from the entries of a recorded list, which are used in turn.

    ``before`` is the present number of VMs, from which the next entry follows. VM names are generated.
    """
    entries: dict[int, dict[str, str]] = {}
    shared = {}
    for name, value in recorded.items():
        bare, bracket, rest = name.partition("[")
        if bare.lower() != LIST or not bracket:
            shared[name] = value
            continue
        number, _, field = rest.partition("].")
        entries.setdefault(int(number), {})[field] = value
    turns = [number for number, entry in entries.items() for _ in range(int(entry.get("count", 1)))]
    wanted = Counter(turns[at % len(turns)] for at in range(before, before + more))
    listed = {
        f"{LIST}[{number}].{field}": value
        for number in wanted
        for field, value in {**entries[number], "count": str(wanted[number])}.items()
        if field.lower() not in OF_EACH
    }
    return _list_call(bound_call(call, {**shared, **listed}))


def _requests(call: Call, token: str | None) -> Sequence[DeployRequest]:
    """Return one deploy request for each distinct configuration of the list's entries.

    The requests are in the order of their first entry.
    """
    listed: Mapping[int, Mapping[str, str]] = call.arguments[LIST]
    shared = {name: value for name, value in call.arguments.items() if name != LIST}
    alike: dict[frozenset[tuple[str, str]], list[int]] = {}
    for index, given in listed.items():
        key = frozenset((name, value) for name, value in given.items() if name.lower() not in OF_EACH)
        alike.setdefault(key, []).append(index)
    lookup = _remembering(partial(resolve_known, call.connection, call.caller))
    of_call = fingerprints(call.arguments)
    requests = []
    for indexes in alike.values():
        with named_entry(indexes[0]):
            given = dict(listed[indexes[0]])
            _refuse_unknown(given)
            arguments = {**shared, **ENTRY.bind(given, call.caller.role_type, lookup)}
            vms = [vm for index in indexes for vm in _vms(index, listed[index], arguments.get("count", 1))]
            requests.append(_request(replace(call, arguments=arguments), vms, token, of_call))
    return requests


def _remembering(lookup: Lookup) -> Lookup:
    """Return a lookup of ids with a cache, so that each id is looked up only once."""
    known: dict[Kinds, dict[str, EntityRef | None]] = {}

    def find(wanted: Mapping[Kinds, Sequence[str]]) -> Found:
        new = {
            kinds: [each for each in ids if each not in known.setdefault(kinds, {})]
            for kinds, ids in wanted.items()
        }
        missing = {kinds: ids for kinds, ids in new.items() if ids}
        found = lookup(missing) if missing else {}
        for kinds, ids in missing.items():
            known[kinds] |= {each: found[kinds].get(each) for each in ids}
        return {
            kinds: {each: ref for each in ids if (ref := known[kinds][each]) is not None}
            for kinds, ids in wanted.items()
        }

    return find


def _refuse_unknown(given: Mapping[str, str]) -> None:
    for name in ENTRY.unknown(given):
        bare = name.partition("[")[0].lower()
        rule = (
            "the parameter belongs to the whole call, not to an entry of virtualmachines"
            if bare in OF_THE_CALL
            else "entries of virtualmachines do not have this parameter"
        )
        # The name alone would look like a parameter of the call.
        raise InvalidParameter(f"{name[:80]} of an entry", given[name][:80], rule)


def _vms(index: int, given: Mapping[str, str], count: int) -> list[NamedVm]:
    """Return the VMs of one entry of the list, with their names. ``count`` is the number of VMs of the entry."""
    with named_entry(index):
        named = {
            name.lower(): ENTRY.value_of(name.lower(), value)
            for name, value in given.items()
            if name.lower() in OF_EACH
        }
    if count > 1 and "name" in named:
        raise InvalidCombination(
            ("name", "count"), "names must be unique: use nameprefix instead of name together with count"
        )
    return [NamedVm(named.get("name"), named.get("displayname"), index)] * count


def _request(call: Call, vms: Sequence[NamedVm], token: str | None, of_call: Mapping[str, bytes]) -> DeployRequest:
    nics = named_nics(call)
    if len(vms) > 1 and any(nic.ip_address or nic.mac_address for nic in nics):
        entry = f"virtualmachines[{vms[1].entry}]"
        raise InvalidCombination(
            ("ipaddress", "macaddress", "iptonetworklist"),
            f"{entry} would have the same address as another VM",
        )
    return deploy_request(
        call,
        bulk=True,
        count=len(vms),
        vms=tuple(vms),
        host_id=call.ref_id("hostid"),
        nics=nics,
        name_prefix=call.text("nameprefix"),
        request_token=token,
        **of_call,
    )


COMMANDS: tuple[Command, ...] = (
    Command(
        name="bulkCreateVirtualMachines",
        description=(
            "Deploys many VMs with different parameters by one call, and disperses them evenly over clusters "
            "or pods. Without partial, either all VMs are deployed or none. The response has one job and the "
            "placement of each VM."
        ),
        roles=ROOT_ADMIN_ONLY,
        shape=Shape.BARE,
        response=CREATED,
        instead=PLAN,
        changes_state=True,
        parameters=(
            entries(
                LIST,
                "the VMs, each with the parameters of deployVirtualMachine, count and nameprefix: "
                "virtualmachines[0].name=..., or as one JSON list of objects",
                maximum=MOST_ENTRIES,
            ),
            *SHARED,
            boolean("partial", "deploy the VMs that fit and leave out the others; default false: all or none"),
            string("requesttoken", "a repeated call with the same token and parameters returns the same jobs"),
            *MANAGED,
        ),
        errors=(*DEPLOYMENT_ERRORS, PlanStale),
        handler=bulk_create_virtual_machines,
        repeat=_repeat,
    ),
)
