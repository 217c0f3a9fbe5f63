"""Stage of a deployment: checks the resource limits of the owner and of the domains above it."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from sqlalchemy import Connection

from bulkdeploy.domain.errors import ResourceLimitExceeded
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.services.deployments.deploying_calls import DeployingCall, Refusals
from bulkdeploy.store.accounts.resource_counts import check_limits, most_within_limits


def keep_within_limits(connection: Connection, calls: Sequence[DeployingCall], refusals: Refusals) -> None:
    """Reject each call that exceeds a limit of its owner, or leave out its last VMs if the call is partial.

    The calls of one owner are first checked together. Only if together they exceed a limit, they are checked one by
    one, each with the calls before it.

    Raises:
        ResourceLimitExceeded: the only call exceeds a limit, even with the smallest number of VMs that it accepts.
        MustRunAlone: some of several calls must be rejected.
    """
    of_owner: dict[int, list[int]] = defaultdict(list)
    for number, call in enumerate(calls):
        of_owner[call.owner.account_id].append(number)
    for numbers in of_owner.values():
        so_far = list(accumulate((calls[number].amounts() for number in numbers), ResourceAmounts.plus))
        try:
            check_limits(connection, calls[numbers[0]].owner, so_far[-1])
        except ResourceLimitExceeded as error:
            for number, amounts in zip(numbers, so_far, strict=True):
                with refusals.of(number):
                    _keep_one(connection, calls[number], amounts, error)
    refusals.check()


def _keep_one(
    connection: Connection, each: DeployingCall, amounts: ResourceAmounts, error: ResourceLimitExceeded
) -> None:
    """Check the limits for one call, or leave out the last VMs of a call that accepts fewer VMs.

    ``error`` is stored as the reason of the VMs that are left out. A call that accepts fewer VMs is alone in its
    transaction, so ``amounts`` contains no other call.
    """
    call, spec = each.call, each.parts[0].spec
    if call.fewest == call.count:
        check_limits(connection, spec.owner, amounts)
    elif call.partial:
        most = bisect(range(call.count), 0, key=lambda at: _passes(connection, each, at + 1))
        if most == 0:
            raise error
        each.leave_out(np.flatnonzero(each.kept & (np.arange(call.count) >= most)), error)
    else:
        check_limits(connection, spec.owner, spec.per_vm.times(call.fewest))
        most = most_within_limits(connection, spec.owner, spec.per_vm, call.count)
        each.leave_out(np.arange(most, call.count), error)


def _passes(connection: Connection, each: DeployingCall, most: int) -> bool:
    """Return whether the first ``most`` VMs of the call exceed a limit."""
    try:
        check_limits(connection, each.owner, each.amounts(most))
    except ResourceLimitExceeded:
        return True
    return False
