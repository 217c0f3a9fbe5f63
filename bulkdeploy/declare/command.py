"""The declaration of a command: everything that one API call promises, as data.

The dispatcher (``api.dispatch``), listApis (``declare.discovery``), the reference pages and the
tests that walk all commands read this one declaration.
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
    """The declaration that calls which arrive during a commit are then handled in one transaction (ADR 62).

    Attributes:
        by: takes a call; those of equal ``work`` and equal answers share. None: the call shares with none.
        request: takes a call; what it asks for.
        work: takes a connection, the system and what several calls ask for; a result for each, or
            ``store.database.shared_transaction.Apart``.
        answer: takes a call and its result; what the command's handler would return.
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
        name: as clients write it; matched case-sensitively.
        handler: takes a ``commands.call.Call`` and returns what ``shape`` wants: a
            ``store.rows.listing.Page`` (LIST), a dict of wire names (OBJECT, BARE), None or a
            ``SuccessText`` (SUCCESS), a ``JobTicket`` (JOB, JOB_SUCCESS).
        roles: role types whose default role allows the command. Default roles have an explicit rule for each such
            command. A role that an operator makes allows nothing because of this field.
        authorized: role types that may call the command if no rule of their role matches it, as CloudStack's
            ``authorized`` of an API command. Few commands have any.
        response: the objects it answers (for JOB: the object in the job's result).
        errors: the errors it can give beyond those every command can.
        envelope: the top-level key where it is irregular.
        instead: another object that it may answer, as an ``Instead``.
        unsupported: parameters that CloudStack has and this service cannot honour, with why: a call that has one
            (``false`` and nothing count as not given) is refused by its name, and nothing is done.
        open: callable without credentials (login, logout); its handler takes a ``commands.call.OpenCall``.
        post_only: refused by GET: it carries a password.
        described: False leaves the command out of listApis, by which CloudStack's UI chooses its pages.
        changes_state: False for reads; such calls may be made by GET in hardened mode. The handler of one that
            changes state runs in a transaction, and again in a new one where that loses a race: it changes nothing
            but the database, and registers what follows the commit (``engine.after_commit``). An error that
            it raises undoes everything; an error that it returns is answered, and what was done stays.
        prepare: does what must neither hold locks nor be repeated, such as hashing a password or asking a
            hypervisor. It takes the call before the transaction, with a connection for reads; the handler gets
            what it returns as a second argument.
        sharing: how its calls share a transaction; then ``handler`` is its ``handle``.
        find_with_caller: for what is wanted thousands of times a second: takes a connection, an API key and the
            parameters, not checked yet, by name in any case, and looks up together the key's holder and, by
            parameters, what the handler will look for (``Call.found``). None: it cannot tell from these.
        repeat: of deploy calls that managed deployments record. It takes a ``Call`` of the command, the recorded
            parameters, the number of VMs that there are and of those that are missing, and returns the
            ``DeployCall`` that adds them.
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
        """``isasync`` in listApis: the answer is a job to poll."""
        return self.shape in (Shape.JOB, Shape.JOB_SUCCESS)

    @property
    def envelope_key(self) -> str:
        """The single top-level key of an answer: the lower-cased name and ``response``."""
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
    """An object of another kind than the command declares: ``{"<key>": {...}}`` (a dry run's plan)."""

    response: Response
    row: Mapping[str, Any]
