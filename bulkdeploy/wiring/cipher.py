"""The cipher of secrets at rest: Fernet (AES-128-CBC with HMAC-SHA256)."""

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from bulkdeploy.wiring import secret_files
from bulkdeploy.wiring.settings import Settings


class SecretKeyWrong(Exception):
    """A stored secret was encrypted with another ``secret_key``."""

    def __init__(self) -> None:
        super().__init__("A stored API secret key cannot be read: secret_key is not the one it was encrypted with")


class FernetCipher:
    """Encrypts with a Fernet key; of several, with commas between them, the first encrypts and any decrypts."""

    def __init__(self, keys: str) -> None:
        self._fernet = MultiFernet([Fernet(key.strip()) for key in keys.split(",")])

    def encrypt(self, secret: str) -> bytes:
        """Return the secret, unreadable at rest."""
        return self._fernet.encrypt(secret.encode())

    def decrypt(self, token: bytes) -> str:
        """Decrypt a secret.

        Raises:
            SecretKeyWrong: another key encrypted it.
        """
        try:
            return self._fernet.decrypt(token).decode()
        except InvalidToken as error:
            raise SecretKeyWrong from error

    def encrypt_anew(self, token: bytes) -> bytes:
        """Return the same secret, encrypted with the first key.

        Raises:
            SecretKeyWrong: none of the keys encrypted it.
        """
        try:
            return self._fernet.rotate(token)
        except InvalidToken as error:
            raise SecretKeyWrong from error


def build_cipher(settings: Settings) -> FernetCipher:
    """Return the cipher with the configured key, or with the one generated in data_dir."""
    if settings.secret_key is not None:
        return FernetCipher(settings.secret_key.get_secret_value())
    return FernetCipher(secret_files.secret_key(settings.data_dir))
