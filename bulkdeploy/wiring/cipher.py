"""The cipher of secrets at rest: Fernet (AES-128-CBC with HMAC-SHA256)."""

from cryptography.fernet import Fernet, InvalidToken


class SecretKeyWrong(Exception):
    """A stored secret was encrypted with another ``secret_key``."""

    def __init__(self) -> None:
        super().__init__("A stored API secret key cannot be read: secret_key is not the one it was encrypted with")


class FernetCipher:
    """Encrypts with one Fernet key."""

    def __init__(self, key: str) -> None:
        self._fernet = Fernet(key)

    def encrypt(self, secret: str) -> bytes:
        """The secret, unreadable at rest."""
        return self._fernet.encrypt(secret.encode())

    def decrypt(self, token: bytes) -> str:
        """The secret again.

        Raises:
            SecretKeyWrong: another key encrypted it.
        """
        try:
            return self._fernet.decrypt(token).decode()
        except InvalidToken as error:
            raise SecretKeyWrong from error
