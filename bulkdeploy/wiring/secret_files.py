"""Secrets that an installation generates and stores in files that only its account may read."""

import os
import secrets
from pathlib import Path

from cryptography.fernet import Fernet

from bulkdeploy.security.random_texts import random_text

SECRET_KEY_FILE = "secret.key"  # noqa: S105 - a file's name
ADMIN_PASSWORD_FILE = "admin.password"  # noqa: S105 - a file's name
PASSWORD_BYTES = 18


def read_or_make(path: Path, fresh: str) -> str:
    """Return the secret in the file ``path``.

    If the file is missing, write ``fresh`` to it and return that.

    If several processes create the file at the same time, all return the same secret.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    if not path.exists():
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(fresh + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text().strip()


def secret_key(data_dir: Path) -> str:
    """Return the Fernet key that is stored in the data directory; it is generated if it is missing."""
    return read_or_make(data_dir / SECRET_KEY_FILE, Fernet.generate_key().decode())


def admin_password(data_dir: Path) -> str:
    """Return the first password of ``admin`` that is stored in the data directory.

    The password is generated if it is missing.
    """
    return read_or_make(data_dir / ADMIN_PASSWORD_FILE, random_text(PASSWORD_BYTES))
