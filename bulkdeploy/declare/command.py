"""The declaration of a command: all properties of an API call, as data.

The dispatcher (``api.dispatch``), listApis (``declare.discovery``), the reference pages and the tests of all
commands read this one declaration.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bulkdeploy.declare.parameters import Parameter, Rule
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE, RoleType
from bulkdeploy.domain.errors import BulkDeployError


@dataclass(frozen=True, slots=True)
class Sharing:
    """The declaration that calls of a command which arrive during a commit are handled in one transaction (ADR 62).

    Attributes:
        by: returns a key for a call. Calls with the same ``work`` and equal keys share a transaction. None means
            that the call does not share.
        request: returns the request of a call, which ``work`` gets.
        work: gets a connection, the system and the requests of several calls. Returns one result per call, or
            raises ``store.database.shared_transaction.MustRunAlone``.
        answer: gets a call and its result, and returns the result of the command's handler.
    """

    by: Callable[[Any], Hashable | None]
    request: Callable[[Any], Any]
    work: Callable[[Any, Any, Sequence[Any]], Sequence[Any]]
    answer: Callable[[Any, Any], Any]

    def handle(self, call: Any) -> Any:
        """Handle a single call of a command whose calls can share a transaction."""
        (result,) = self.work(call.connection, call.system, [self.request(call)])
        return self.answer(call, result)


@dataclass(frozen=True, slots=True)
class Command:
    """An API command.

    Attributes:
        name: the name of the command, which is matched case-sensitively.
        handler: gets a ``commands.call.Call`` and returns a value that fits ``shape``: a
            ``store.rows.listing.Page`` (LIST), a dictionary by field names (OBJECT, BARE), None or a
            ``SuccessText`` (SUCCESS), or a ``JobTicket`` (JOB, JOB_SUCCESS).
        roles: the role types whose default role allows the command. Default roles have an explicit rule for each
            such command. This field does not affect roles that operators create.
        authorized: the role types that may call the command if no rule of their role matches it, as in CloudStack's
            ``authorized`` of an API command. It is empty for most commands.
        response: the returned objects (for JOB: the object in the job's result).
        errors: the errors of the command, in addition to errors of every command.
        envelope: the top-level key of the response if it is irregular.
        instead: another object that the command may return, as an ``Instead``.
        unsupported: CloudStack's parameters that this service does not support, with the reasons. A call with such
            a parameter (other than ``false`` or an empty value) is rejected with its name.
        open: whether the command needs no credentials (login, logout); its handler gets a
            ``commands.call.OpenCall``.
        post_only: whether GET is rejected because the command carries a password.
        described: whether listApis contains the command. CloudStack's UI chooses its pages by listApis.
        changes_state: False for commands that only read, which may be called by GET in hardened mode. Otherwise the
            handler runs in a transaction, and again in a new one after a conflict. Therefore it changes only the
            database, and registers other actions for after the commit (``engine.after_commit``). An error that it
            raises rolls back everything. An error that it returns is sent to the client, and the changes are
            committed.
        prepare: does work that must not hold locks or be repeated, such as hashing a password or querying a
            hypervisor. It gets the call before the transaction, with a connection for reading. Its result is the
            second argument of the handler.
        sharing: how calls share a transaction; then ``handler`` is its ``handle``.
        find_with_caller: for commands that are called thousands of times per second. It gets a connection, an API
            key and the unchecked parameters, by name in any case, and looks up the key's user together with the
            object that the handler needs (``Call.found``). It returns None if the parameters do not allow this.
        repeat: for deploy calls that managed deployments record. It gets a ``Call`` of the command, the recorded
            parameters, the number of existing VMs and the number of missing VMs, and returns the ``DeployCall``
            that adds them.
    """

    name: str
    description: str
    handler: Callable[..., Any]
    shape: Shape
    response: Response | None = None
    parameters: tuple[Parameter, ...] = ()
    rules: tuple[Rule, ...] = ()
    roles: frozenset[RoleType] = EVERY_ROLE
    authorized: frozenset[RoleType] = frozenset()
    since: str | None = None
    errors: tuple[type[BulkDeployError], ...] = field(default=())
    envelope: str | None = None
    instead: Response | None = None
    unsupported: Mapping[str, str] = field(default_factory=dict)
    open: bool = False
    post_only: bool = False
    described: bool = True
    changes_state: bool = False
    prepare: Callable[[Any], Any] | None = None
    sharing: Sharing | None = None
    find_with_caller: (
        Callable[[Any, str, Callable[[str], str | None]], tuple[Any, Mapping[str, Any]] | None] | None
    ) = None

    repeat: Callable[[Any, Mapping[str, str], int, int], Any] | None = None

    @property
    def is_async(self) -> bool:
        """Return whether the response is a job that the client polls (``isasync`` in listApis)."""
        return self.shape in (Shape.JOB, Shape.JOB_SUCCESS)

    @property
    def envelope_key(self) -> str:
        """The single top-level key of a response: the lower-case name of the command followed by ``response``."""
        return self.envelope or f"{self.name.lower()}response"


@dataclass(frozen=True, slots=True)
class Derived:
    """A command that is derived from the command ``base`` by the function ``make``.

    The module of the derived command need not import the base command.
    """

    base: str
    make: Callable[[Command], Command]


@dataclass(frozen=True, slots=True)
class JobTicket:
    """The response of an asynchronous command: the ids of the job and of the object that was created, if any."""

    job_uuid: str
    entity_uuid: str | None = None


@dataclass(frozen=True, slots=True)
class SuccessText:
    """A success response with a display text."""

    displaytext: str


@dataclass(frozen=True, slots=True)
class Instead:
    """An object of another type than the command declares, such as the plan of a dry run: ``{"<key>": {...}}``."""

    response: Response
    row: Mapping[str, Any]
