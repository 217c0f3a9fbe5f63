"""The delay after wrong passwords before the next password is checked.

Wrong passwords count for the pair of user and address, and for the address. Therefore wrong passwords from one
address do not delay the user at another address, and a stranger cannot lock out a user. Delays apply to all users,
including the default admin, and all API processes share them. From an address from which the user has logged in
before, the password is checked even during a delay: the correct password is accepted, and a wrong one gets the same
response as any other attempt during the delay.

CloudStack has no delays: it disables a user with its API keys after ``incorrect.login.attempts.allowed`` wrong
passwords, but never the default admin.
"""

from dataclasses import dataclass

from bulkdeploy.domain.errors import BulkDeployError

KNOWN_FOR_DAYS = 90
"""After this time without a login, an address counts as one that the user has never logged in from."""

FORGOTTEN_AFTER_S = 3600
"""An attempt that long ago counts no more, nor those before it."""


@dataclass(frozen=True, slots=True)
class Delay:
    """A delay: after ``free`` failures each further failure doubles it, from 1 s to ``most_s``."""

    free: int
    most_s: int

    def after(self, failures: int) -> int:
        """Return the seconds to wait after this number of failures in a row."""
        beyond = failures - self.free
        return 0 if beyond <= 0 else min(self.most_s, 2 ** min(beyond - 1, 30))


OF_A_USER = Delay(free=5, most_s=60)
OF_AN_ADDRESS = Delay(free=20, most_s=300)
"""More are free: whole offices come from one address."""


class LoginDelayed(BulkDeployError):
    """Raised when a password is not checked because too many wrong passwords preceded it (429)."""

    def __init__(self, retry_after_s: int) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(f"Too many failed logins; the next login is possible in {retry_after_s} s")
