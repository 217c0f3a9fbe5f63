"""The parameters of leases, declared once for offerings, deploy calls and updates."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.declare.parameters import Needs, Parameter, Rule, integer, string
from bulkdeploy.domain.virtual_machines.leases import MOST_DAYS, NO_LEASE, ExpiryAction, check_lease

LEASE: tuple[Parameter, ...] = (
    integer(
        "leaseduration",
        "days after which a VM is stopped or destroyed; -1: never. Other values are ignored while"
        " instance.lease.enabled is false",
        minimum=NO_LEASE,
        maximum=MOST_DAYS,
    ),
    string("leaseexpiryaction", "the action at the end of the lease: STOP or DESTROY", choices=tuple(ExpiryAction)),
)
LEASE_RULES: tuple[Rule, ...] = (Needs("leaseexpiryaction", "leaseduration"),)


def lease_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the duration in days and the action of the requested lease, or an empty dict if none is requested.

    Raises:
        InvalidParameter: the duration is zero, or an action is missing.
    """
    days, action = arguments.get("leaseduration"), arguments.get("leaseexpiryaction")
    if days is None:
        return {}
    check_lease(days, action)
    return {"lease_days": days, "lease_action": action}
