"""Deploy calls for one VM, many equal VMs or a list of VMs, executed in one transaction.

This is the synchronous half of a deployment (docs/explanation/architecture.md). A call that returns an error, or
whose process dies before its commit, has changed nothing. If the process dies after the commit, the sweeper sends
the outbox rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.deployments.deployment import DeployCall
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.placement.model import HostAnswer
from bulkdeploy.services.deployments.deploying_calls import DeployingCall, FewerVms, Refusals
from bulkdeploy.services.deployments.deployment_checks import KnownSpecs, check_deployments
from bulkdeploy.services.deployments.deployment_record import plan_record
from bulkdeploy.services.deployments.shown_plans import places_of
from bulkdeploy.services.deployments.stages.addresses import give_addresses
from bulkdeploy.services.deployments.stages.claims import claim
from bulkdeploy.services.deployments.stages.drivers import check_drivers
from bulkdeploy.services.deployments.stages.limits import keep_within_limits
from bulkdeploy.services.deployments.stages.names import give_names
from bulkdeploy.services.deployments.stages.plans import plan, plan_of_none
from bulkdeploy.services.deployments.stages.rows import write
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.resource_counts import add_amounts_of
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.deployments.deployments import DeployedVms, find_by_token
from bulkdeploy.store.deployments.new_vms import CallPart, reserve_identities
from bulkdeploy.store.deployments.plans import keep_plan
from bulkdeploy.store.ledger.zone_locks import keep_zone_rules, lock_plans


@dataclass(frozen=True, slots=True)
class DryRun:
    """The result of a dry run: the effect that the deploy call would have.

    Attributes:
        plan: the plan, with internal ids.
        requested: the number of requested VMs.
        fits: the number of VMs that the call would create.
        hosts: the results of the placement rules for the hosts that the call asks about.
        parts: the VMs that the call would create, with their hosts and pools.
        failures: the VMs that a partial call would omit.
        kinds: the hosts and pools of each kind of VM, as they are stored under ``index``.
        index: the index by which a later call can apply the plan, or None if the plan places no VM.
    """

    plan: Mapping[str, Any]
    requested: int
    fits: int
    hosts: Sequence[HostAnswer]
    parts: Sequence[CallPart] = ()
    failures: Sequence[Mapping[str, Any]] = ()
    kinds: Sequence[Mapping[str, Any]] = ()
    index: int | None = None


def deploy(connection: Connection, system: System, calls: Sequence[DeployCall]) -> list[DeployedVms | DryRun]:
    """Deploy the VMs of all calls in one transaction; their jobs are sent to workers after the commit.

    Each call has the same result as if the calls were executed one after the other. Calls that are not ``is_alone``
    must be in one zone, must all be bulk calls or all single calls, and must be pinned to the same part of the zone
    or not pinned. Each of these calls deploys all of its VMs or none. A call with ``minimum_count`` or ``partial``
    leaves out VMs that lack capacity, an address or a limit. A call with the ``request_token`` of an earlier call
    returns the jobs of the earlier call. A dry run writes only its plan.

    Raises:
        ParameterError, PermissionDenied, OwnerDisabled: a call violates a rule (``deployment_checks``).
        ResourceLimitExceeded: a limit of the owner or of a domain above it is too low.
        InsufficientCapacity, InsufficientAddresses: fewer VMs fit than the call accepts.
        MustRunAlone: some of several calls must be rejected.
        TransactionConflict: a concurrent transaction changed the same data; the whole transaction must be repeated.
    """
    if any(call.is_alone for call in calls):
        return [_deploy_alone(connection, system, call) for call in calls]
    return _deploy(connection, system, calls, [])


def _deploy_alone(connection: Connection, system: System, call: DeployCall) -> DeployedVms | DryRun:
    """Deploy the VMs of one call, or plan them in a dry run.

    If some VMs of a partial deployment cannot get an address, the changes are rolled back and the deployment is
    repeated without these VMs. A call with the ``request_token`` of an earlier call returns the earlier result.
    """
    if call.shared.request_token is not None and (earlier := _earlier(connection, call)) is not None:
        return earlier
    if call.fewest == call.count and not call.shared.dry_run:
        (result,) = _deploy(connection, system, [call], [])
        return result
    without: list[FewerVms] = []
    while True:  # ends: each turn asks for fewer
        savepoint = connection.begin_nested()
        try:
            (result,) = _deploy(connection, system, [call], without)
        except FewerVms as fewer:
            without.append(fewer)
            savepoint.rollback()
        else:
            (savepoint.rollback if call.shared.dry_run else savepoint.commit)()
            return _keep_plan(connection, call, result) if isinstance(result, DryRun) else result


def _earlier(connection: Connection, call: DeployCall) -> DeployedVms | None:
    """Return the result of the earlier call with this token, or None if there is none.

    Raises:
        InvalidParameter: the earlier call had other parameters.
    """
    token = call.shared.request_token or ""
    found = find_by_token(connection, call.caller.user_id, token)
    if found is None:
        return None
    fingerprint, deployed = found
    if fingerprint != call.shared.fingerprint:
        raise InvalidParameter(
            "requesttoken", token, "the token was used before with other parameters: use a new one"
        )
    return deployed


def _keep_plan(connection: Connection, call: DeployCall, shown: DryRun) -> DryRun:
    """Store the plan of a dry run, so that a later call can apply the plan by its index.

    A plan that places no VMs is not stored.
    """
    if not shown.kinds:
        return shown
    index = keep_plan(connection, call.caller.user_id, call.shared.plan_fingerprint, shown.kinds)
    return replace(shown, index=index)


def _deploy(
    connection: Connection, system: System, calls: Sequence[DeployCall], without: Sequence[FewerVms]
) -> list[DeployedVms | DryRun]:
    """Execute all stages of a deployment for the calls, without the VMs that cannot get an address.

    Lock order: zone, groups, clusters, hosts, pools, ranges, counts, rows.
    """
    shared, refusals = calls[0].shared, Refusals(len(calls))
    keep_zone_rules(connection, shared.zone_id)
    configuration = read_configuration(connection)
    deploying = _check(connection, system, configuration, calls, refusals)
    if shared.bulk:
        lock_plans(connection, shared.zone_id, **_common_pins(calls[0]))
    for each in deploying:
        for fewer in without:
            each.leave_out(fewer.vms, fewer.error)
    keep_within_limits(connection, deploying, refusals)
    plan(connection, configuration, deploying, refusals)
    reserve_identities(connection, deploying)
    claim(connection, deploying)
    give_addresses(connection, deploying, refusals)
    give_names(connection, configuration, deploying, refusals)
    if shared.dry_run:
        return [_shown(connection, configuration, each) for each in deploying]
    add_amounts_of(connection, [(each.owner, each.amounts()) for each in deploying])
    return [*write(connection, system, configuration, deploying)]


def _check(
    connection: Connection,
    system: System,
    configuration: Configuration,
    calls: Sequence[DeployCall],
    refusals: Refusals,
) -> list[DeployingCall]:
    """Check the rules for all calls that do not depend on capacity, and return the calls with their specifications.

    A call that violates a rule is recorded in ``refusals``, and an error is raised.
    """
    known, deploying = KnownSpecs(), []
    for number, call in enumerate(calls):
        with refusals.of(number):
            specs = check_deployments(connection, configuration, call, known)
            check_drivers(connection, system, specs)
            deploying.append(DeployingCall.of(call, specs))
    refusals.check()
    return deploying


def _common_pins(call: DeployCall) -> dict[str, int | None]:
    """Return the pod, cluster and host to which all requests of the call are pinned.

    All three are None if the requests are pinned differently.
    """
    pins = {(request.pod_id, request.cluster_id, request.host_id) for request in call.requests}
    pod, cluster, host = pins.pop() if len(pins) == 1 else (None, None, None)
    return {"pod_id": pod, "cluster_id": cluster, "host_id": host}


def _shown(connection: Connection, configuration: Configuration, each: DeployingCall) -> DryRun:
    """Return the result of a dry run: the plan, the number of VMs that fit, and the failures."""
    planned = each.planned or plan_of_none(connection, configuration, each)
    return DryRun(
        plan=plan_record(planned),
        requested=each.call.count,
        fits=each.count,
        hosts=planned[0].hosts,
        parts=each.parts,
        failures=list(each.failures()),
        kinds=[places_of(kind) for kind in each.planned or ()],
    )
