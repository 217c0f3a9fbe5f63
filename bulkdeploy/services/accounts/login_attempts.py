"""Attempts to prove a password: counted by user and by address before the password is looked at, for everybody.

No thread waits here: the answer says for how long to wait, so a guesser holds nothing.
"""

from dataclasses import dataclass

from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.login_delays import OF_A_USER, OF_AN_ADDRESS, LoginDelayed
from bulkdeploy.domain.source_networks import source_of
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts import login_attempts
from bulkdeploy.store.accounts.password_locks import count_failure
from bulkdeploy.store.jobs.events import record_event


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who tries to prove whose password; ``address`` None: a user who is authenticated otherwise."""

    domain_id: int
    username: str
    address: str | None = None

    @property
    def user(self) -> str:
        """The user as a subject of attempts, whether there is such a user or not."""
        return f"user {self.domain_id} {self.username.lower()}"

    @property
    def source(self) -> str | None:
        """The address as a subject of attempts."""
        return None if self.address is None else f"address {source_of(self.address)}"


def admit(system: System, attempt: Attempt) -> None:
    """Count an attempt, whatever becomes of the call; it counts as a failure until ``succeed``.

    Raises:
        LoginDelayed: too many failed before it; the password must not be looked at.
    """
    with system.engine.begin() as connection:
        wait_s = 0
        if attempt.source is not None:
            wait_s = login_attempts.count_attempt(connection, attempt.source, OF_AN_ADDRESS)
        if not wait_s:
            wait_s = login_attempts.count_attempt(connection, attempt.user, OF_A_USER)
            if wait_s and attempt.source is not None:
                login_attempts.take_back(connection, attempt.source)
    if wait_s:
        raise LoginDelayed(wait_s)


def succeed(connection: Connection, attempt: Attempt) -> None:
    """The password was right: the user's failures are forgotten. The address keeps its own, but for this attempt.

    For who has one good password could guess others' for ever otherwise.
    """
    login_attempts.forget_attempts(connection, attempt.user)
    if attempt.source is not None:
        login_attempts.take_back(connection, attempt.source)


def count_wrong_password(connection: Connection, caller: Caller, user_id: int, username: str) -> None:
    """Count a wrong password of a user's; too many in a row lock it, which is an event of the caller's."""
    if count_failure(connection, user_id):
        text = f"locked the password of user {username}: too many wrong ones; enableUser unlocks it"
        record_event(connection, caller, EventType.USER_LOCK, text)


def forget(connection: Connection, domain_id: int, username: str) -> None:
    """A user was let in again: failures before that do not count."""
    login_attempts.forget_attempts(connection, Attempt(domain_id, username).user)
