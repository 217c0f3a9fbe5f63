"""The secret key is replaced while programs run, and what it protects stays readable throughout."""

import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr
from sqlalchemy import Engine, text

from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from tests.conftest import SECRET_KEY
from tests.support.processes.programs import bulkdeploy

pytestmark = pytest.mark.long


def test_everything_is_readable_with_the_new_key_alone(
    settings: Settings, engine: Engine, cipher: FernetCipher
) -> None:
    """Before: with the old one, or with both. After: with the new one, and not with the old."""
    new = Fernet.generate_key().decode()
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(
            text(
                "INSERT INTO virtual_machines (id, uuid, account_id, name, display_name, instance_name, user_id,"
                " zone_id, state, hypervisor, service_offering_id, template_id, cpu_number, cpu_mhz, memory_mib,"
                " deployment_id, password_encrypted)"
                " VALUES (1, gen_random_uuid(), 2, 'a', '', 'i', 2, 1, 'Running', 'KVM',"
                " 1, 1, 1, 1, 1, 1, :password)"
            ),
            {"password": cipher.encrypt("of a VM")},
        )

    def with_key(key: str) -> Settings:
        return settings.model_copy(update={"secret_key": SecretStr(key)})

    shown = [
        bulkdeploy(with_key(keys), "admin", "credentials").stdout for keys in (SECRET_KEY, f"{new},{SECRET_KEY}")
    ]
    assert shown[0] == shown[1] != ""
    refused = bulkdeploy(with_key(new), "admin", "reencrypt")
    assert (refused.returncode, "does not have the key that encrypted it" in refused.stderr) == (1, True), (
        refused.stderr
    )
    ended = bulkdeploy(with_key(f"{new},{SECRET_KEY}"), "admin", "reencrypt")
    assert (ended.returncode, "secrets are encrypted with the first key" in ended.stdout) == (0, True), ended.stderr
    assert bulkdeploy(with_key(new), "admin", "credentials").stdout == shown[0]
    assert bulkdeploy(with_key(SECRET_KEY), "admin", "credentials").returncode == 1
    with engine.connect() as connection:
        token = connection.execute(text("SELECT password_encrypted FROM virtual_machines")).scalar_one()
    assert FernetCipher(new).decrypt(bytes(token)) == "of a VM"
