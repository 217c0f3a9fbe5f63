"""Stage: resource limits of the owner and of the domains above it."""

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
    """Refuse each call that passes a limit beside the earlier calls of its owner, or leave out its last VMs.

    The calls of one owner are checked together, and one by one only if together they pass a limit.

    Raises:
        ResourceLimitExceeded: the only call passes a limit, and accepts no smaller number that does not.
        Apart: some of several calls are refused.
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
    """Check the amounts, or leave out the VMs, the last ones first, that a call which accepts fewer cannot have.

    ``error`` is the reason of VMs that are left out. A call that accepts fewer shares no transaction: its amounts
    are its own.
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
    """Return whether the first ``most`` VMs pass a limit."""
    try:
        check_limits(connection, each.owner, each.amounts(most))
    except ResourceLimitExceeded:
        return True
    return False
