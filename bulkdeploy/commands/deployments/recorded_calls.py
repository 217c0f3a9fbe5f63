"""Recorded deploy calls of managed deployments. They are repeated to add VMs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.binding import Binder
from bulkdeploy.declare.parameters import boolean, integer, string
from bulkdeploy.domain.deployments.deployment import RecordedCall, ScaleInPolicy
from bulkdeploy.domain.deployments.health_checks import LONGEST_TIMEOUT_S, NO_CHECK, HealthCheck
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidCombination
from bulkdeploy.services.deployments.guest_checks import require_checkable
from bulkdeploy.store.rows.entities import resolve_known

HOW_MANAGED = (
    string(
        "scaleinpolicy",
        "if managed, the order in which VMs are removed: Balanced (initial value; keeps the numbers of VMs per "
        "cluster or pod even, and removes the newest first), NewestFirst or OldestFirst",
        choices=tuple(ScaleInPolicy),
    ),
    boolean(
        "autoheal",
        "if managed, start VMs that stopped by themselves, and replace VMs in state Error; initial value: false",
    ),
    integer(
        "healafter",
        "if autoheal is true, the seconds that a VM must have been Stopped before it is started again; "
        "initial value: 300",
        minimum=0,
    ),
    string(
        "healthcheck",
        "if managed, the check that the guest of a replaced VM must answer: agent (the guest agent), tcp: and a "
        "port such as tcp:22, or none; initial value: none",
    ),
    integer(
        "healthtimeout",
        "the timeout of healthcheck: if a guest does not answer within this number of seconds after the start "
        "of its VM, the VM counts as failed; initial value: 300",
        minimum=1,
        maximum=LONGEST_TIMEOUT_S,
    ),
)
"""Parameters that determine how a deployment is managed."""

MANAGED = (
    boolean(
        "managed",
        "whether the service keeps the number of VMs: updateBulkDeployment changes the number, and missing VMs "
        "are replaced",
    ),
    *HOW_MANAGED,
)

OF_ONE_CALL = frozenset(
    {
        *(parameter.name for parameter in MANAGED),
        *("virtualmachinecount", "minimumcount", "partial", "requesttoken", "dryrun", "summary"),
        *("planindex", "hostids"),
    }
)
"""Parameters that concern only the original call, and are not recorded."""

TIMEOUT_RULE = "healthtimeout must be given with a healthcheck other than none"

ADDRESSES = ("ipaddress", "macaddress")


def recorded_call(call: Call) -> RecordedCall | None:
    """Return the recorded parameters of a call that creates a managed deployment.

    Returns None if the deployment is not managed, or for a dry run.

    Raises:
        InvalidCombination: a parameter of HOW_MANAGED is given without ``managed``, a list contains addresses, or a
            health timeout is given without a health check.
        InvalidParameter: ``healthcheck`` is not a valid health check, or the settings do not allow this check.
    """
    arguments = call.arguments
    if not call.flag("managed"):
        for parameter in HOW_MANAGED:
            if parameter.name in arguments:
                rule = f"{parameter.name} must be given with managed=true"
                raise InvalidCombination((parameter.name, "managed"), rule)
        return None
    given = dict(_wire(name, value) for name, value in _flat(arguments) if name not in OF_ONE_CALL)
    if any(name.lower().rpartition(".")[2] in (*ADDRESSES, "ip", "mac") for name in given):
        rule = "addresses of single VMs cannot be given with managed=true, because added VMs would get the same"
        raise InvalidCombination(("managed", *ADDRESSES), rule)
    if not {"account", "projectid"} & given.keys():
        owner = call.caller.owner
        given |= {"account": owner.account_name, "domainid": str(owner.domain_uuid)}
    policy = ScaleInPolicy(arguments.get("scaleinpolicy", ScaleInPolicy.BALANCED))
    health_check = HealthCheck.read(call.text("healthcheck") or NO_CHECK)
    if health_check is not None:
        require_checkable(call.connection, call.system, health_check, (), "healthcheck", str(health_check))
    elif "healthtimeout" in arguments:
        raise InvalidCombination(("healthtimeout", "healthcheck"), TIMEOUT_RULE)
    if call.flag("dryrun"):
        return None
    return RecordedCall(
        call.command.name,
        given,
        policy,
        autoheal=call.flag("autoheal"),
        heal_after_s=arguments.get("healafter"),
        health_check=health_check,
        health_timeout_s=arguments.get("healthtimeout"),
    )


def bound_call(call: Call, parameters: Mapping[str, str]) -> Call:
    """Return the call with other parameters, which are validated like those of a request.

    Raises:
        ParameterError: a rule of the command is violated, or an entity does not exist.
    """
    lookup = partial(resolve_known, call.connection, call.caller)
    arguments = Binder(call.command).bind(parameters, call.caller.role_type, lookup)
    return replace(call, arguments=arguments, method="POST")


def _flat(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the arguments with one item per entry of maps and lists, named as in an API request."""
    for name, value in arguments.items():
        entries: Mapping[int, Mapping[str, Any]] = {}
        if isinstance(value, Mapping):
            entries = value
        elif isinstance(value, tuple) and value and isinstance(value[0], Mapping):
            entries = dict(enumerate(value))
        else:
            yield name, value
        for number, entry in entries.items():
            for field, part in entry.items():
                yield f"{name}[{number}].{field}", part


def _wire(name: str, value: Any) -> tuple[str, str]:
    if isinstance(value, tuple):
        return name, ",".join(_wire(name, part)[1] for part in value)
    if isinstance(value, EntityRef):
        return name, str(value.uuid)
    return name, str(value).lower() if isinstance(value, bool) else str(value)
