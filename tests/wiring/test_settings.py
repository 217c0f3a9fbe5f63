"""Promises of the settings: sources, their order, and the generated default file."""

import tomllib
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError
from redis import Redis

from bulkdeploy.drivers.simulator.options import SimulatorOptions
from bulkdeploy.manage.generate import default_toml
from bulkdeploy.store.database.database_url import database_parameters
from bulkdeploy.wiring.settings import SettingMissing, Settings, load_settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests begin without settings of the caller's environment."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"BULKDEPLOY_{name.upper()}", raising=False)


def test_environment_wins_over_the_file_and_options_over_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options, then environment, then file, then default."""
    file = tmp_path / "settings.toml"
    file.write_text("api_processes = 3\napi_threads = 3\nworker_threads = 3\n")
    monkeypatch.setenv("BULKDEPLOY_API_THREADS", "4")
    monkeypatch.setenv("BULKDEPLOY_WORKER_THREADS", "4")
    settings = load_settings(file, worker_threads=5)
    assert (settings.api_processes, settings.api_threads, settings.worker_threads) == (3, 4, 5)
    assert settings.lease_seconds == Settings.model_fields["lease_seconds"].default


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("no_such_setting = 1", "no_such_setting"),
        ("api_processes = 0", "api_processes"),
        ('database_url = "mysql://host/name"', "postgresql://"),
        ('redis_url = "http://host"', "redis://"),
        ('redis_url = "sentinel://one:26379,two"', "must name the primary"),
        ('redis_url = "sentinel://one,/0?master=mine"', "every Sentinel"),
        ('redis_url = "sentinel://one:no/0?master=mine"', "redis_url"),
        ('redis_url = "sentinel://one/zero?master=mine"', "number of a database"),
        ('redis_url = "sentinel://one/0?master=mine&ssl=1"', "parameters that Sentinels do not have: ssl"),
        ('redis_url = "redis://one:6379,two:6379/0"', "one server"),
        ('redis_url = "redis://one:no/0"', "redis_url"),
        ('database_url = "postgresql://one:5432,two:no/name"', "ports from 1 to 65535"),
        ('database_url = "postgresql://one/name?no_such=1"', "no_such"),
        ('admin_password_file = "/no/such/file"', "admin_password_file: the file cannot be read"),
        ('database_password = "word"', "database_url is not"),
        ('database_password = "word"\ndatabase_url = "postgresql://me:other@one/name"', "remove one of them"),
        ('secret_key = "a"\nsecret_key_file = "b"', "secret_key and secret_key_file are both set"),
        ('listen = "8080"', "listen"),
        ('listen = "127.0.0.1:99999"', "at most 65535"),
        ('listen = ":8080"', "such as 127.0.0.1:8080"),
        ('listen = "::1:8080"', "such as 127.0.0.1:8080"),
        ('log_level = "LOUD"', "log_level"),
        ("api_processes =", "Invalid value"),
    ],
)
def test_wrong_file_is_refused_by_name(tmp_path: Path, line: str, word: str) -> None:
    """A file with an unknown name or a value out of bounds is refused, and the text names it."""
    file = tmp_path / "settings.toml"
    file.write_text(line + "\n")
    with pytest.raises((ValidationError, ValueError), match=word):
        load_settings(file)


def test_secrets_come_from_files_and_passwords_go_into_urls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As containers mount them: a file holds the secret and nothing else, of any characters."""
    secret = "p@ss/word: 100%?"
    file = tmp_path / "secret"
    file.write_text(f"{secret}\n")
    files = [f"BULKDEPLOY_{name}_PASSWORD_FILE" for name in ("DATABASE", "REDIS", "ADMIN")]
    for name in files:
        monkeypatch.setenv(name, str(file))
    monkeypatch.setenv("BULKDEPLOY_DATABASE_URL", "postgresql://me@one:5432,two:5433/name")
    monkeypatch.setenv("BULKDEPLOY_REDIS_URL", "redis://one:6379/0")
    settings = load_settings()
    found = database_parameters(settings.require_database_url())
    assert (found["user"], found["password"], found["host"]) == ("me", secret, "one,two")
    assert Redis.from_url(settings.require_redis_url()).get_connection_kwargs()["password"] == secret
    assert settings.admin_password is not None
    assert settings.admin_password.get_secret_value() == secret
    for name in files:
        monkeypatch.delenv(name)
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert load_settings() == settings


def test_refused_values_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with a URL is told without the password in it."""
    monkeypatch.setenv("BULKDEPLOY_DATABASE_URL", "postgresql://me:hidden words@one/name")
    monkeypatch.setenv("BULKDEPLOY_REDIS_URL", "http://:hidden@one")
    with pytest.raises(ValidationError) as refused:
        load_settings()
    assert "hidden" not in str(refused.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """A file that is named and not there is an error, not an empty file."""
    with pytest.raises(FileNotFoundError, match=r"nowhere\.toml"):
        load_settings(tmp_path / "nowhere.toml")


def test_empty_variables_count_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose files pass unset variables as empty ones."""
    monkeypatch.setenv("BULKDEPLOY_DATABASE_URL", "")
    assert load_settings().database_url is None


def test_missing_setting_names_its_variable() -> None:
    """Who needs a setting that is not there is told how to give it."""
    with pytest.raises(SettingMissing, match="BULKDEPLOY_REDIS_URL"):
        Settings().require_redis_url()


def test_children_read_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """``environment`` carries every setting, secrets too, to another process."""
    settings = Settings(
        database_url="postgresql://user@/name?host=%2Frun",
        secret_key=SecretStr("a key"),
        drivers={"KVM": "libvirt", "default": "simulator"},
        driver={"libvirt": {"password": "words with spaces", "port": 1}},
        lease_seconds=77,
    )
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert load_settings() == settings


def test_secrets_do_not_show_in_texts() -> None:
    """Printing settings, as a traceback may, shows no secret."""
    settings = Settings(
        secret_key=SecretStr("hidden words"),
        admin_password=SecretStr("hidden words"),
        database_url="postgresql://user:hidden%20words@host/name",
        redis_url="redis://:hidden%20words@host",
    )
    assert "hidden" not in repr(settings)


def test_default_file_says_what_the_code_says() -> None:
    """Every setting stands in the generated file, and its default there is the code's."""
    lines = default_toml().splitlines()
    assignments = "\n".join(line.removeprefix("# ") for line in lines if " = " in line or line.startswith("# ["))
    shown = tomllib.loads(assignments)
    assert set(shown) == set(Settings.model_fields)
    options = {name: value for name, value in shown.pop("driver")["simulator"].items() if value != ""}
    given = {name: value for name, value in shown.items() if value != ""}
    assert Settings(**given) == Settings()
    assert SimulatorOptions(url=SecretStr("postgresql://"), **options) == SimulatorOptions(
        url=SecretStr("postgresql://")
    )


def test_options_of_drivers_come_from_the_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable wins over the file, option by option and type by type, and what it says is text to the driver."""
    file = tmp_path / "settings.toml"
    file.write_text('[drivers]\nKVM = "libvirt"\nVMware = "vcenter"\n[driver.libvirt]\nurl = "a"\nport = 1\n')
    monkeypatch.setenv("BULKDEPLOY_DRIVERS__KVM", "other")
    monkeypatch.setenv("BULKDEPLOY_DRIVER__LIBVIRT__URL", "b")
    monkeypatch.setenv("BULKDEPLOY_DRIVER__LIBVIRT__PASSWORD", "123456")
    settings = load_settings(file)
    assert settings.drivers == {"kvm": "other", "vmware": "vcenter"}
    assert settings.driver == {"libvirt": {"url": "b", "port": 1, "password": "123456"}}
    assert "123456" not in repr(settings)


def test_nothing_is_simulated_by_default() -> None:
    """No driver is set by default; what ``up`` and ``demo`` do instead leaves those alone that are."""
    assert Settings().drivers == {}
    assert Settings().with_simulator().drivers == {"default": "simulator"}
    own = Settings(drivers={"KVM": "libvirt"})
    assert own.with_simulator() == own
