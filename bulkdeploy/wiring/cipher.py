"""The encryption of secrets in the database with Fernet (AES-128-CBC with HMAC-SHA256)."""

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from bulkdeploy.wiring import secret_files
from bulkdeploy.wiring.settings import Settings


class SecretKeyWrong(Exception):
    """A stored secret was encrypted with a key that the setting ``secret_key`` does not have."""

    def __init__(self) -> None:
        super().__init__(
            "A stored secret cannot be decrypted: the setting secret_key does not have the key that encrypted it"
        )


class FernetCipher:
    """Encrypts and decrypts secrets with one or several Fernet keys, which are separated by commas.

    The first key encrypts; each of the keys can decrypt.
    """

    def __init__(self, keys: str) -> None:
        self._fernet = MultiFernet([Fernet(key.strip()) for key in keys.split(",")])

    def encrypt(self, secret: str) -> bytes:
        """Return the encrypted secret."""
        return self._fernet.encrypt(secret.encode())

    def decrypt(self, token: bytes) -> str:
        """Return the secret in ``token``.

        Raises:
            SecretKeyWrong: none of the keys encrypted the secret.
        """
        try:
            return self._fernet.decrypt(token).decode()
        except InvalidToken as error:
            raise SecretKeyWrong from error

    def encrypt_anew(self, token: bytes) -> bytes:
        """Return the secret in ``token``, encrypted with the first key.

        Raises:
            SecretKeyWrong: none of the keys encrypted the secret.
        """
        try:
            return self._fernet.rotate(token)
        except InvalidToken as error:
            raise SecretKeyWrong from error


def build_cipher(settings: Settings) -> FernetCipher:
    """Return the cipher with the key from the settings, or with the key generated in ``data_dir``."""
    if settings.secret_key is not None:
        return FernetCipher(settings.secret_key.get_secret_value())
    return FernetCipher(secret_files.secret_key(settings.data_dir))
