"""The HTTP status and ``cserrorcode`` of each error class when a call fails (cloudstack-protocol.md 1.6 and 1.7).

The ``errorcode`` of a failed job is in ``provisioning/outcome.py``. Code 9999 is CloudStack's code for errors of
its API layer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bulkdeploy.domain import errors, request_errors
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.accounts.call_guards import ChangeByGet, UnknownParameters
from bulkdeploy.domain.accounts.login_delays import LoginDelayed

RAISED_BY_THE_API = 9999
HIDDEN_STATUSES = frozenset({530, 533, 534})
NEUTRAL_TEXT = str(errors.UnexpectedFailure())
NEUTRAL_TEXTS: Mapping[int, str] = {
    533: "There is not enough capacity for this request at the moment: ask for less, try again later, or contact"
    " your system administrator",
    534: "A resource that this request needs is unavailable at the moment: try again later, or contact your system"
    " administrator",
}
"""Error texts by HTTP status for callers who are not root admins.

The other statuses in HIDDEN_STATUSES have the text NEUTRAL_TEXT.
"""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The HTTP status and the ``cserrorcode`` of an error; None if the response has no ``cserrorcode``."""

    status: int
    cserrorcode: int | None = RAISED_BY_THE_API


TABLE: Mapping[type[errors.BulkDeployError], Numbers] = {
    errors.ParameterError: Numbers(431, 4350),
    errors.MissingParameter: Numbers(431),
    UnknownParameters: Numbers(431),
    errors.EmptyParameter: Numbers(431, 4350),
    errors.MalformedValue: Numbers(431),
    errors.UnknownEntity: Numbers(431),
    errors.MalformedMap: Numbers(430),
    errors.InvalidParameter: Numbers(431, 4350),
    errors.InvalidCombination: Numbers(431, 4350),
    errors.PagingError: Numbers(431),
    errors.CredentialsRefused: Numbers(401, None),
    errors.SessionRefused: Numbers(401, None),
    errors.LoginFailed: Numbers(531, 4290),
    LoginDelayed: Numbers(429, 4545),
    errors.LoginByGet: Numbers(405),
    ChangeByGet: Numbers(405),
    errors.CommandNotAvailable: Numbers(432),
    errors.UnknownCommand: Numbers(432),
    errors.NoCommand: Numbers(400),
    errors.RequestTooLarge: Numbers(413),
    errors.MethodNotAllowed: Numbers(405),
    request_errors.MalformedRequest: Numbers(400),
    request_errors.RequestLineTooLong: Numbers(414),
    request_errors.HeadersTooLarge: Numbers(431),
    request_errors.RequestTooSlow: Numbers(408),
    request_errors.ServerBusy: Numbers(503),
    errors.PermissionDenied: Numbers(531, 4365),
    errors.OwnerDisabled: Numbers(531, 4365),
    errors.TooManyCalls: Numbers(429, 4545),
    errors.ResourceLimitExceeded: Numbers(535, 4370),
    errors.InsufficientCapacity: Numbers(533, 4335),
    errors.PlanStale: Numbers(409, 4350),
    errors.InsufficientAddresses: Numbers(533, 4320),
    errors.InsufficientVlans: Numbers(533, 4331),
    errors.ResourceUnavailable: Numbers(534, 4380),
    errors.ResourceInUse: Numbers(536, 4375),
    errors.OperationFailed: Numbers(530, 4250),
    errors.UnknownApi: Numbers(530),
    errors.ConflictRetriesExhausted: Numbers(530, 4300),
    errors.DatabaseUnreachable: Numbers(503, 4250),
    errors.OutcomeUnknown: Numbers(530, RAISED_BY_THE_API),
    errors.UnexpectedFailure: Numbers(530, 4250),
    errors.InvalidInventory: Numbers(431, 4350),
}


def numbers_of(error: errors.BulkDeployError) -> Numbers:
    """Return the entry of TABLE for the error's class, or for its nearest base class that has an entry."""
    return next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)


def text_of(error: errors.BulkDeployError, caller: Caller | None) -> str:
    """Return the error text that the caller gets.

    A caller who is not a root admin gets a neutral text for errors about capacity, unavailability and failures, so
    that the text names no host or pool. Errors of the API layer itself (code 9999) keep their text.
    """
    numbers = numbers_of(error)
    inside = numbers.status in HIDDEN_STATUSES and numbers.cserrorcode != RAISED_BY_THE_API
    if inside and caller is not None and not caller.is_root_admin:
        return NEUTRAL_TEXTS.get(numbers.status, NEUTRAL_TEXT)
    return str(error)


def error_content(error: errors.BulkDeployError, caller: Caller | None) -> dict[str, Any]:
    """Return the content of an error response (cloudstack-protocol.md 1.6)."""
    numbers = numbers_of(error)
    content: dict[str, Any] = {"uuidList": [], "errorcode": numbers.status}
    if numbers.cserrorcode is not None:
        content["cserrorcode"] = numbers.cserrorcode
    content["errortext"] = text_of(error, caller)
    return content
