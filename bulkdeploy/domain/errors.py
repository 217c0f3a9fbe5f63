"""All errors of calls and jobs, with typed fields (one file: a class per cause, as api.errors has them).

``api.errors`` is the only module that maps each class to its HTTP status and ``cserrorcode``. The text of an error
names the parameter, the value, the rule and the accepted values. Texts that clients compare literally are marked
and must not change.
"""

from collections.abc import Sequence
from enum import Enum
from uuid import UUID

from bulkdeploy.domain.urls import redact_url

URL = "url"
"""A parameter whose value may carry credentials, which errors must not repeat."""


class BulkDeployError(Exception):
    """The base class of all errors of calls and jobs. It is never raised itself."""


SECRET_PARAMETERS = frozenset(
    {
        "password",
        "currentpassword",
        "passwordhash",
        "usersecretkey",
        "userapikey",
        "userdata",
        "token",
        "vsmpassword",
    }
)
"""The names of parameters whose values are secrets, in any command: no error repeats them."""

NOT_SHOWN = "(not shown)"


def shown_value(parameter: str, value: object) -> object:
    """Return the form of a parameter's value for an error message.

    Values of secret parameters are hidden, and a URL is shown without credentials. For an entry of a list, the last
    part of its name decides.
    """
    name = parameter.rpartition(".")[2].lower()
    if name == URL and isinstance(value, str):
        return redact_url(value)
    return NOT_SHOWN if name in SECRET_PARAMETERS else value


# --- parameters ---------------------------------------------------------------------------


class ParameterError(BulkDeployError):
    """The base class of errors about a parameter that is missing, malformed, unknown or not allowed with others."""


class MissingParameter(ParameterError):
    """Raised when a required parameter is absent (cloudstack-protocol.md 1.7: 431 / 9999)."""

    def __init__(self, command: str, parameter: str) -> None:
        self.command, self.parameter = command, parameter
        super().__init__(f"Unable to execute API command {command.lower()} due to missing parameter {parameter}")


class EmptyParameter(ParameterError):
    """Raised when a required parameter is present without a value (431 / 4350)."""

    def __init__(self, parameter: str) -> None:
        self.parameter = parameter
        super().__init__(f"Invalid value provided for API arg: {parameter}: it must not be empty")


class MalformedValue(ParameterError):
    """Raised for a value that cannot be converted to the parameter's type, or is out of its range (431 / 9999)."""

    def __init__(self, command: str, parameter: str, value: str, rule: str) -> None:
        value = str(shown_value(parameter, value))
        self.command, self.parameter, self.value, self.rule = command, parameter, value, rule
        shown = value if len(value) <= 80 else f"{value[:77]}... ({len(value)} characters)"
        super().__init__(
            f"Unable to execute API command {command.lower()} due to invalid value {shown} "
            f"for parameter {parameter}: {rule}"
        )


class UnknownEntity(ParameterError):
    """Raised for an id of no entity. Clients match this text literally (cloudstack-protocol.md 1.7)."""

    def __init__(self, command: str, parameter: str, value: str) -> None:
        self.command, self.parameter, self.value = command, parameter, value
        super().__init__(
            f"Unable to execute API command {command.lower()} due to invalid value. Invalid parameter "
            f"{parameter} value={value} due to incorrect long value format, or entity does not exist or due "
            "to incorrect parameter annotation for the field in api cmd class."
        )


class MalformedMap(ParameterError):
    """Raised for a map parameter whose index or field name is malformed (430)."""

    def __init__(self, parameter: str, rule: str) -> None:
        self.parameter, self.rule = parameter, rule
        super().__init__(f"Malformed map parameter {parameter}: {rule}")


class InvalidParameter(ParameterError):
    """Raised for a well-formed value that violates a rule of the command (431 / 4350)."""

    def __init__(self, parameter: str, value: object, rule: str) -> None:
        value = shown_value(parameter, value.value if isinstance(value, Enum) else value)
        self.parameter, self.value, self.rule = parameter, value, rule
        missing = f"Parameter {parameter} is missing"
        what = missing if value is None else f"Invalid value {value!r} for parameter {parameter}"
        super().__init__(f"{what}: {rule}")


class InvalidCombination(ParameterError):
    """Raised for parameters that are valid separately but not together (431 / 4350).

    The text names the parameters if ``rule`` names none of them.
    """

    def __init__(self, parameters: Sequence[str], rule: str) -> None:
        self.parameters, self.rule = tuple(parameters), rule
        names = ", ".join(self.parameters)
        super().__init__(rule if any(name in rule for name in parameters) else f"{rule} (parameters: {names})")


class PagingError(ParameterError):
    """Raised when ``page`` and ``pagesize`` violate a rule of paging (431 / 9999)."""


# --- who may ------------------------------------------------------------------------------


class CredentialsRefused(BulkDeployError):
    """Raised for a wrong key, signature, expiry time or session (401).

    The text does not tell these cases apart. It only names a command that does not exist.
    """

    def __init__(self, unknown_command: str | None = None) -> None:
        why = "" if unknown_command is None else f": there is no API command {unknown_command[:100]}"
        super().__init__(f"unable to verify user credentials and/or request signature{why}")


class SessionRefused(BulkDeployError):
    """Raised for an expired session, or for a session key of another session. The session ends (401)."""

    def __init__(self) -> None:
        super().__init__("unable to verify user credentials")


class LoginFailed(BulkDeployError):
    """Raised when user name, password and domain do not match (531)."""


class LoginByGet(BulkDeployError):
    """Raised when a login uses GET, because passwords must not be in URLs (405)."""

    def __init__(self) -> None:
        super().__init__("Please use HTTP POST to authenticate using this API")


class CommandNotAvailable(BulkDeployError):
    """Raised when the API does not exist or is not allowed for this caller (432 under ``errorresponse``)."""

    def __init__(self, command: str, account: str) -> None:
        self.command, self.account = command, account
        super().__init__(f"The API [{command}] does not exist or is not available for the account {account}.")


class UnknownCommand(BulkDeployError):
    """Raised for an unknown API command, to callers who may learn this (432 under ``errorresponse``)."""

    def __init__(self, command: str) -> None:
        self.command = command
        super().__init__(f"Unknown API command: {command}")


class NoCommand(BulkDeployError):
    """Raised for a request without the parameter ``command`` (400)."""

    def __init__(self) -> None:
        super().__init__("no command specified")


class RequestTooLarge(BulkDeployError):
    """Raised for a request with more text or more parameters than a call may have (413)."""

    def __init__(self, what: str, most: int) -> None:
        self.what, self.most = what, most
        super().__init__(f"The request is too large: at most {most} {what} are accepted")


class MethodNotAllowed(BulkDeployError):
    """Raised when the API is called with another HTTP method than GET or POST (405)."""

    def __init__(self, method: str) -> None:
        self.method = method
        super().__init__(f"The API is called by GET or POST, not by {method}")


class PermissionDenied(BulkDeployError):
    """Raised when the caller may use the API, but not on this entity (531 / 4365)."""


class OwnerDisabled(BulkDeployError):
    """Raised when the account that would own the new VMs is disabled or locked (531)."""

    def __init__(self, account: str, state: str) -> None:
        self.account, self.state = account, state
        super().__init__(f"The owner of vm to deploy is disabled: {account} (its state is {state})")


class TooManyCalls(BulkDeployError):
    """Raised when the account has used up its calls of the current interval (429)."""

    def __init__(self, retry_after_ms: int) -> None:
        self.retry_after_s = -(-retry_after_ms // 1000)
        super().__init__(
            f"The given user has reached his/her account api limit, please retry after {retry_after_ms} ms."
        )


# --- room and limits ------------------------------------------------------------------------


class ResourceLimitExceeded(BulkDeployError):
    """Raised when a limit of an account, project or domain would be exceeded (535)."""

    def __init__(
        self,
        *,
        resource: str,
        owner_kind: str,
        owner_name: str,
        domain_uuid: UUID,
        limit: str,
        current: str,
        requested: str,
    ) -> None:
        self.resource, self.owner_kind, self.owner_name = resource, owner_kind, owner_name
        self.limit, self.current, self.requested = limit, current, requested
        if owner_kind == "domain":
            text = (
                f"Maximum domain resource limits of Type '{resource}' for Domain Id = {domain_uuid} is exceeded: "
                f"Domain Resource Limit = {limit}, Current Domain Resource Amount = {current}, "
                f"Requested Resource Amount = {requested}."
            )
        else:
            noun = "Project" if owner_kind == "project" else "Account"
            text = (
                f"Maximum amount of resources of Type = '{resource}' for {noun} Name = {owner_name} in Domain "
                f"Id = {domain_uuid} is exceeded: {noun} Resource Limit = {limit}, Current {noun} Resource "
                f"Amount = {current}, Requested Resource Amount = {requested}."
            )
        super().__init__(text)


AFFINITY_HINT = " Please check the affinity groups provided, there may not be sufficient capacity to follow them."


class InsufficientCapacity(BulkDeployError):
    """Raised when there is no capacity for a request (533).

    The text states how many VMs fit and which rules excluded hosts. Clients match the beginning of the text, and
    "No destination found for a deployment for VM instance". ``fits`` is None if allocator programs had to choose
    the hosts and none of them did; the number of VMs that fit was not computed then.
    """

    def __init__(
        self, *, requested: int, fits: int | None, scope: str, why: str, with_affinity: bool = False
    ) -> None:
        self.requested, self.fits, self.scope, self.why = requested, fits, scope, why
        none = "none would fit. No destination found for a deployment for VM instances"
        found = "no allocator chose hosts" if fits is None else f"{fits} would fit" if fits else none
        super().__init__(
            f"Unable to create a deployment for {requested} VM instance(s) in {scope}: {found}."
            + (f" {why[0].upper()}{why[1:]}." if why else "")
            + (AFFINITY_HINT if with_affinity else "")
        )


class PlanStale(BulkDeployError):
    """Raised when a recorded plan cannot be applied exactly as it was shown (409)."""

    def __init__(self, index: int, why: Sequence[str]) -> None:
        self.index, self.why = index, tuple(why)
        named = f": {'; '.join(why)}" if why else ""
        super().__init__(f"Plan {index} is stale{named}. Nothing was done: plan again with dryrun=true")


class InsufficientAddresses(BulkDeployError):
    """Raised when a network has fewer free addresses than requested VMs (533)."""

    def __init__(self, network: str, requested: int, free: int) -> None:
        self.network, self.requested, self.free = network, requested, free
        super().__init__(f"Network {network} has {free} free address(es), {requested} are needed")


class InsufficientVlans(BulkDeployError):
    """Raised when a physical network has no VLAN that a network of the account may get (533)."""

    def __init__(self, physical_network: str, vlan_range: str) -> None:
        self.physical_network, self.vlan_range = physical_network, vlan_range
        rule = f"each VLAN of {vlan_range} is in use, or its dedication excludes the account"
        super().__init__(f"Physical network {physical_network} has no free VLAN: {rule}")


class ResourceUnavailable(BulkDeployError):
    """Raised when a required host, agent or pool does not answer (534)."""


class ResourceInUse(BulkDeployError):
    """Raised when an entity cannot be removed because another entity uses it (536)."""


# --- inside ---------------------------------------------------------------------------------


class OperationFailed(BulkDeployError):
    """Raised for a rejection that CloudStack answers with 530 although it is not a defect (530 / 4250)."""


class UnknownApi(OperationFailed):
    """Raised when ``listApis name=`` names an unknown command (530)."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"Api Discovery plugin was unable to find an api by that name or process any apis: {name}")


class ConflictRetriesExhausted(BulkDeployError):
    """Raised when a transaction conflicted with others too often.

    Nothing was changed, and the call may be repeated (530).
    """


class DatabaseUnreachable(BulkDeployError):
    """Raised when the database cannot serve a call, which has changed nothing (503 / 4250).

    ``reason`` is the database's own explanation. Without a reason the database does not answer, or has no free
    connection.
    """

    def __init__(self, reason: str | None = None) -> None:
        problem = "cannot be reached" if reason is None else f"cannot serve calls, because {reason},"
        super().__init__(f"The database {problem} at the moment; try again later")


class OutcomeUnknown(BulkDeployError):
    """Raised when the connection to the database failed during a commit and was not restored in time (530 / 9999).

    The call may or may not have taken effect.
    """


class UnexpectedFailure(BulkDeployError):
    """Raised for a defect of the service. Only the server's log has the details (530)."""

    def __init__(self) -> None:
        super().__init__("Internal error executing command, please contact your system administrator")


class InvalidInventory(BulkDeployError):
    """Raised for a zone file that violates a rule. The text has line, key and rule. Nothing was loaded."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))
