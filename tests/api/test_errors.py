"""The table of errors."""

import re
from uuid import UUID

import pytest

from bulkdeploy.api.errors import NEUTRAL_TEXT, NEUTRAL_TEXTS, TABLE, Numbers, error_content, numbers_of, text_of
from bulkdeploy.domain import errors, request_errors
from bulkdeploy.domain.accounts import call_guards, login_delays
from bulkdeploy.domain.accounts.accounts import AccountType, Caller, Owner, RoleType
from bulkdeploy.domain.errors import BulkDeployError


def caller(role_type: RoleType) -> Caller:
    """A caller of this role type."""
    owner = Owner(2, UUID(int=2), "account", AccountType.USER, 1, UUID(int=1), "/1/")
    return Caller(2, UUID(int=3), "user", owner, 4, role_type)


ALL_ERRORS = {
    kind
    for module in (errors, call_guards, login_delays, request_errors)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, BulkDeployError) and kind is not BulkDeployError
}


def test_every_error_has_a_row_and_every_row_an_error() -> None:
    """No class of errors is without numbers of its own, and no numbers are left over."""
    assert set(TABLE) == ALL_ERRORS


@pytest.mark.parametrize("numbers", TABLE.values())
def test_statuses_are_cloudstacks(numbers: Numbers) -> None:
    """Every status is one that clients know: CloudStack's own, or HTTP's for what happens before any command.

    409 is ours: a plan that was shown is stale, which CloudStack has no words for.
    """
    assert numbers.status in {400, 401, 405, 408, 409, 413, 414, 429, 430, 431, 432, 503, *range(530, 538)}
    assert numbers.cserrorcode is None or 4250 <= numbers.cserrorcode <= 9999


def test_unknown_entity_answers_431() -> None:
    """The object of an error has exactly CloudStack's fields."""
    content = error_content(errors.UnknownEntity("listZones", "id", "5"), caller(RoleType.USER))
    assert {name: value for name, value in content.items() if name != "errortext"} == {
        "uuidList": [],
        "errorcode": 431,
        "cserrorcode": 9999,
    }


def test_refused_credentials_have_no_second_code() -> None:
    """The 401 answer has no cserrorcode, as CloudStack's has none."""
    assert error_content(errors.CredentialsRefused(), None) == {
        "uuidList": [],
        "errorcode": 401,
        "errortext": "unable to verify user credentials and/or request signature",
    }


INSIDE = [
    errors.InsufficientCapacity(requested=3, fits=1, scope="zone z", why="hosts ruled out: 2 by cpu"),
    errors.ResourceUnavailable("host h7 does not answer"),
    errors.ConflictRetriesExhausted("lost 20 races"),
    errors.OperationFailed("cannot stop"),
]


@pytest.mark.parametrize("error", INSIDE, ids=lambda error: type(error).__name__)
def test_only_root_admins_see_internal_details(error: BulkDeployError) -> None:
    """Everybody else reads which kind of problem it is, and nothing of its details."""
    assert text_of(error, caller(RoleType.ADMIN)) == str(error)
    (text,) = {text_of(error, caller(role)) for role in set(RoleType) - {RoleType.ADMIN}}
    assert text == NEUTRAL_TEXTS.get(numbers_of(error).status, NEUTRAL_TEXT)
    assert not re.search(r"zone z|cpu|h7|20|cannot stop", text)


@pytest.mark.parametrize(
    "error", [errors.UnknownApi("x"), errors.PagingError("page"), errors.PermissionDenied("no")]
)
def test_every_caller_sees_its_own_mistakes(error: BulkDeployError) -> None:
    """Who made a mistake learns which, whatever the role."""
    assert text_of(error, caller(RoleType.USER)) == str(error)
