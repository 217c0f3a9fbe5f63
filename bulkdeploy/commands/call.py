"""A validated API call with everything that a handler receives."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.declare.command import Command
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.services.system import System


@dataclass(frozen=True, slots=True)
class Call:
    """An API call with its parsed arguments and its caller, as the command's handler receives it.

    Attributes:
        arguments: the parsed values of the given parameters, by name. Types by wire type: UUID -> EntityRef, LIST
            of UUID -> tuple[EntityRef, ...], LIST of STRING -> tuple[str, ...], INTEGER/LONG/SHORT -> int, FLOAT ->
            float, BOOLEAN -> bool, STRING -> str, MAP -> tuple of dicts in index order, DATE/TZDATE -> datetime
            with time zone.
        connection: valid during the handler. In a command that changes state it is in the call's transaction, which
            is committed when the handler returns; otherwise, and for ``Command.prepare``, it can only read.
        method: GET or POST; the size limit of user data depends on it.
        origin: scheme, host and port of this API as the caller addressed it, or an empty text if unknown.
        found: the result of ``Command.find_with_caller``.
    """

    command: Command
    caller: Caller
    arguments: Mapping[str, Any]
    system: System
    connection: Connection
    method: str = "GET"
    origin: str = ""
    found: Mapping[str, Any] = field(default_factory=dict)

    def ref(self, name: str) -> EntityRef | None:
        """Return the entity that a UUID parameter names, or None if the parameter was not given."""
        return self.arguments.get(name)

    def ref_id(self, name: str) -> int | None:
        """Return the internal id of the entity that a UUID parameter names, or None if it was not given."""
        ref = self.arguments.get(name)
        return None if ref is None else ref.id

    def ref_uuid(self, name: str) -> UUID | None:
        """Return the uuid of the entity that a UUID parameter names, or None if the parameter was not given."""
        ref = self.arguments.get(name)
        return None if ref is None else ref.uuid

    def text(self, name: str) -> str | None:
        """Return the value of a STRING parameter, or None if the parameter was not given."""
        return self.arguments.get(name)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return the value of a BOOLEAN parameter, or ``default`` if the parameter was not given."""
        return bool(self.arguments.get(name, default))

    def give_back_connection(self) -> Callable[[], AbstractContextManager[Connection]]:
        """Return the database connection to the pool before slow calls to hypervisors.

        Returns a function that opens read-only connections. Only read commands and ``Command.prepare`` may use
        this, because the handler of a command that changes state needs its transaction.
        """
        self.connection.close()
        return self.system.reading.connect


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call of a command that needs no credentials, such as login.

    Attributes:
        session_token: the JSESSIONID cookie of the call, which is not verified, or None.
        address: the IP address of the client.
    """

    command: Command
    arguments: Mapping[str, Any]
    system: System
    connection: Connection
    session_token: str | None = None
    address: str = ""
