"""Limits on password attempts, counted before the password is checked.

Attempts are counted per pair of user and address, and per address. No thread waits because of a limit: the response
tells how long the client must wait, so an attacker cannot block threads.
"""

from dataclasses import dataclass

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.accounts.login_delays import OF_A_USER, OF_AN_ADDRESS, LoginDelayed
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.networks.source_networks import source_of
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts import login_attempts
from bulkdeploy.store.accounts.password_locks import count_failure
from bulkdeploy.store.jobs.events import record_event

FROM = " from "
"""Stands between the user and the address in the subject of attempts."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to log in with a password.

    ``address`` is None if the user is already authenticated by other means.
    """

    domain_id: int
    username: str
    address: str | None = None

    @property
    def user(self) -> str:
        """The key under which attempts of this user are counted. The user need not exist.

        If the attempt has an address, attempts are counted per user and source address.
        """
        user = f"user {self.domain_id} {self.username.lower()}"
        return user if self.address is None else f"{user}{FROM}{source_of(self.address)}"

    @property
    def source(self) -> str | None:
        """The key under which attempts from this address are counted, or None if the attempt has no address."""
        return None if self.address is None else f"address {source_of(self.address)}"


def admit(system: System, attempt: Attempt) -> LoginDelayed | None:
    """Count a login attempt, independent of the result of the call.

    The attempt counts as a failure until ``succeed`` is called.

    Returns:
        The error to return if the password is wrong, although the attempt comes too early: the user has logged in
        from this address before, so the correct password is accepted. None if there is no delay.

    Raises:
        LoginDelayed: too many attempts failed before this one; the password must not be checked.
    """
    with system.engine.begin() as connection:
        wait_s = 0
        if attempt.source is not None:
            wait_s = login_attempts.count_attempt(connection, attempt.source, OF_AN_ADDRESS)
        if not wait_s:
            wait_s = login_attempts.count_attempt(connection, attempt.user, OF_A_USER)
            if wait_s and attempt.source is not None:
                login_attempts.uncount_failure(connection, attempt.source)
        known = bool(wait_s) and login_attempts.is_known_login(connection, attempt.user)
    delayed = LoginDelayed(wait_s) if wait_s else None
    if delayed is not None and not known:
        raise delayed
    return delayed


def succeed(connection: Connection, attempt: Attempt) -> None:
    """Record a login with the correct password: delete the user's counted failures.

    If the attempt has a source address, the address is remembered as one from which the user has logged in, and
    only this attempt is subtracted from the failures of the address. Otherwise the owner of one account could reset
    the count and guess passwords of other users without limit.
    """
    login_attempts.forget_attempts(connection, attempt.user)
    if attempt.source is not None:
        login_attempts.remember_login(connection, attempt.user)
        login_attempts.uncount_failure(connection, attempt.source)


def count_wrong_password(connection: Connection, caller: Caller, user_id: int, username: str) -> None:
    """Count a wrong password of a user. Too many wrong passwords in a row lock the password and record an event."""
    if count_failure(connection, user_id):
        text = f"locked the password of user {username}: too many wrong ones; enableUser unlocks it"
        record_event(connection, caller, EventType.USER_LOCK, text)


def forget(connection: Connection, domain_id: int, username: str) -> None:
    """Delete the counted login failures of a user, from all addresses, when an admin enables the user."""
    user = Attempt(domain_id, username).user
    login_attempts.forget_attempts(connection, user)
    login_attempts.forget_all_attempts(connection, f"{user}{FROM}")
