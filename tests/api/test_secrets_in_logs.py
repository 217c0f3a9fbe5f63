"""What the API writes while calls bring secrets, give some, and fail: none of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from tests.conftest import ADMIN_PASSWORD
from tests.support.api.api_client import ApiClient
from tests.support.api.session_client import Browser
from tests.support.processes.programs import api_process

pytestmark = pytest.mark.long

SECRET = "s3cr3t"
"""Part of every secret that the calls bring."""

PERSON = {"firstname": "First", "lastname": "Last", "email": "first@last.example", "accounttype": "0"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the server writes."""
    return tmp_path / "api.log"


@pytest.fixture
def server(settings: Settings, engine: Engine, cipher: FernetCipher, log: Path) -> Iterator[ApiClient]:
    """The root admin's client of an API process that writes all that it can."""
    with engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    with api_process(settings.model_copy(update={"log_level": "DEBUG"}), log) as url:
        yield ApiClient(url, admin.api_key, cipher.decrypt(admin.secret_key_encrypted))


def test_no_secret_is_logged(server: ApiClient, engine: Engine, log: Path) -> None:
    """Passwords, keys, sessions and user data are in no line: not of good calls, refused ones, or broken ones."""
    shown = {ADMIN_PASSWORD, server.secret_key}
    browser = Browser(server.url)
    browser.login("admin", f"{SECRET} wrong")
    shown |= {cookie.value or "" for cookie in browser.login("admin", ADMIN_PASSWORD).cookies}
    browser.call("listZones", password=SECRET)
    browser.call("login", username="admin", password=SECRET)
    browser.http.close()
    user = server.call("createAccount", username="ann", password=f"{SECRET} password", **PERSON)["account"]["user"][
        0
    ]
    shown |= set(server.call("registerUserKeys", id=user["id"])["userkeys"].values())
    shown |= set(server.call("getUserKeys", id=user["id"])["userkeys"].values())
    server.call("updateUser", id=user["id"], userapikey=f"{SECRET}-key", usersecretkey=f"{SECRET}-secret-key")
    server.call("registerUserData", name="data", userdata="czNjcjN0")
    shown.add(server.call("createSSHKeyPair", name="pair")["keypair"]["privatekey"].splitlines()[1])
    for name, value in (("password", SECRET * 100), ("password", f"{SECRET}\x00"), ("password", " ")):
        assert server.post("updateUser", id=user["id"], **{name: value}).status == 431
    for place in (
        "rbd://u:{}A=@ceph/pool",
        "rbd://u:{}@a\u2100b/pool",
        "rbd://u:{}]=@mon/pool",
        "rbd:/u:{}@mon/p",
        "nfs://{}@[::1/p",
    ):
        assert server.post("createStoragePool", name="ceph", url=place.format(SECRET)).status == 431
    for command in ("registerSSHKeyPair", "registerUserData", "addHost", "addCluster", "deployVirtualMachine"):
        requested = {"name": "x", "publickey": SECRET, "userdata": f"{SECRET}!", "password": SECRET, "keypair": "x"}
        assert server.post(command, **requested).status == 431
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE users ADD CHECK (password_hash IS NULL) NOT VALID"))
        connection.execute(text("ALTER TABLE user_data ADD CHECK (false) NOT VALID"))
        connection.execute(text("ALTER TABLE api_keys ADD CHECK (false) NOT VALID"))
    assert server.post("createUser", account="ann", username="b", password=SECRET, **PERSON).status == 530
    assert server.post("registerUserData", name="more", userdata="czNjcjN0").status == 530
    assert server.post("updateUser", id=user["id"], userapikey=SECRET, usersecretkey=SECRET).status == 530
    written = log.read_text()
    assert written.count("violates check constraint") >= 3
    hidden = (SECRET, "czNjcjN0", "$argon2", "gAAAA", *shown)
    assert [secret for secret in hidden if secret in written] == []
