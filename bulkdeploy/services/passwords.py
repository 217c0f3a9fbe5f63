"""Passwords of users, which are hashed, and new passwords of guests, which are encrypted.

Hashes are argon2id. They are checked in a time that does not tell whether the user exists.
"""

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from bulkdeploy.security.random_texts import random_text
from bulkdeploy.services.system import Cipher

GUEST_PASSWORD_BYTES = 12
NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$7sRvQW4Yw4pSmB8lPq6cWg$8oF7J1pWcXcW9b1yP3sJ6lKJ2rQYt0m3xV5nH4dZqkE"
"""A hash that no password has; checked in place of one that is not there."""


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password, in the form in which it is stored."""
    return PasswordHasher().hash(password)


def password_matches(password: str, password_hash: str | None) -> bool:
    """Return whether a password has this hash. Without a hash, the same work is done and False is returned."""
    try:
        matches = PasswordHasher().verify(password_hash or NOBODY, password)
    except (VerificationError, InvalidHashError):
        return False
    return matches and password_hash is not None


class KeptPassword:
    """A stored password hash that can be compared with a plain text.

    It is equal to the text that was hashed, and also to the empty text, which means "no change".
    """

    def __init__(self, password_hash: str | None) -> None:
        self._hash = password_hash

    def __eq__(self, other: object) -> bool:
        """Return whether the text is empty or is the password."""
        return isinstance(other, str) and (other == "" or password_matches(other, self._hash))

    __hash__ = None  # type: ignore[assignment]  # its texts would need the same one


def new_guest_password(cipher: Cipher) -> bytes:
    """Return a new random password for a guest, encrypted."""
    return cipher.encrypt(random_text(GUEST_PASSWORD_BYTES))
