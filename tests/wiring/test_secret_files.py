"""Promises of the secrets that an installation makes for itself."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bulkdeploy.wiring import secret_files
from bulkdeploy.wiring.cipher import FernetCipher, SecretKeyWrong


def test_generated_secret_stays_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    """The second reading gives the same key, from a file of mode 600."""
    key = secret_files.secret_key(tmp_path)
    assert secret_files.secret_key(tmp_path) == key
    assert stat.S_IMODE((tmp_path / secret_files.SECRET_KEY_FILE).stat().st_mode) == 0o600


def test_rivals_get_one_secret(tmp_path: Path) -> None:
    """Of many that start at once all get the same password, and no draft stays behind."""
    with ThreadPoolExecutor(16) as rivals:
        found = set(rivals.map(lambda _: secret_files.admin_password(tmp_path), range(64)))
    assert len(found) == 1
    assert [path.name for path in tmp_path.iterdir()] == [secret_files.ADMIN_PASSWORD_FILE]


def test_cipher_gives_back_what_it_hid(tmp_path: Path) -> None:
    """A secret is unreadable at rest and comes back with the same key."""
    cipher = FernetCipher(secret_files.secret_key(tmp_path))
    token = cipher.encrypt("the secret")
    assert b"the secret" not in token
    assert cipher.decrypt(token) == "the secret"


def test_a_wrong_key_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    """Another installation's key gives an error that names the setting."""
    token = FernetCipher(secret_files.secret_key(tmp_path / "one")).encrypt("the secret")
    with pytest.raises(SecretKeyWrong, match="secret_key"):
        FernetCipher(secret_files.secret_key(tmp_path / "two")).decrypt(token)
