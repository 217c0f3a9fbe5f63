"""Promises of the container files: valid, and nothing in them that does not exist."""

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml
from pydantic import SecretStr

from bulkdeploy.drivers.simulator import SimulatorOptions
from bulkdeploy.manage.main import main
from bulkdeploy.services.system import PASSWORD_THREADS, WATCHING_THREADS
from bulkdeploy.wiring.settings import ENVIRONMENT_PREFIX, Settings

ROOT = Path(__file__).parents[2]
IMAGE = "bulkdeploy:latest"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """docker-compose.yml, with its merge keys resolved."""
    return dict(yaml.safe_load((ROOT / "docker-compose.yml").read_text()))


@pytest.fixture(scope="module")
def programs(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The services that run our image."""
    return {name: service for name, service in compose["services"].items() if service["image"] == IMAGE}


def walk(arguments: list[str]) -> click.Command:
    """The subcommand that these words reach."""
    command: click.Command = main
    context = click.Context(main)
    for word in arguments:
        if word.startswith("-"):
            break
        assert isinstance(command, click.Group), f"{word!r} has no place in {arguments}"
        found = command.get_command(context, word)
        assert found is not None, f"there is no command {word!r} in {arguments}"
        command = found
    return command


def test_file_is_what_compose_reads(compose: dict[str, Any]) -> None:
    """The file follows the Compose specification."""
    schema = resources.files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text()
    jsonschema.validate(compose, json.loads(schema))


def test_every_command_exists(programs: dict[str, dict[str, Any]]) -> None:
    """Each service runs a subcommand of the product, to its last word."""
    for service in programs.values():
        assert not isinstance(walk(service["command"]), click.Group) or service["command"] == ["--help"]


def test_every_part_of_the_service_runs(programs: dict[str, dict[str, Any]]) -> None:
    """API, workers and sweeper are there, and the schema is upgraded before any of them starts."""
    commands = {service["command"][0]: service for service in programs.values()}
    for part in ("api", "worker", "sweeper"):
        assert commands[part]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert programs["migrate"]["command"] == ["db", "upgrade"]


def test_every_setting_exists(programs: dict[str, dict[str, Any]]) -> None:
    """Variables with our prefix, here and in the image, are names of settings."""
    in_image = re.findall(rf"\b{ENVIRONMENT_PREFIX}(\w+)=", (ROOT / "Dockerfile").read_text())
    in_compose = [name for service in programs.values() for name in service["environment"]]
    names = {*in_image, *(name.removeprefix(ENVIRONMENT_PREFIX).partition("__")[0] for name in in_compose)}
    assert names <= {name.upper() for name in Settings.model_fields}
    assert "DATABASE_URL" in names


def test_values_given_are_accepted(programs: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """With their placeholders filled in, the values are good settings."""
    for service in programs.values():
        for name, value in service["environment"].items():
            filled = re.sub(r"\$\{\w+(?::-(\w+)|:\?[^}]*)\}", lambda found: found[1] or "secret", value)
            monkeypatch.setenv(name, filled)
        assert Settings().database_url == "postgresql://bulkdeploy:secret@postgres:5432/bulkdeploy"
        assert Settings().drivers == {"default": "secret"}


def test_no_secret_stands_in_the_files(compose: dict[str, Any]) -> None:
    """Secrets come from the environment, and the file refuses to start without them."""
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|URL", name):
                assert re.search(r"\$\{\w+:\?", value), f"{name} has a value of its own"


def test_dependencies_exist_and_have_what_is_waited_for(compose: dict[str, Any]) -> None:
    """Who waits for a healthy service waits for one with a health check."""
    for service in compose["services"].values():
        for name, wanted in service.get("depends_on", {}).items():
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in compose["services"][name]


def test_database_has_room_for_every_process(compose: dict[str, Any]) -> None:
    """The connections that all processes of the file may hold fit the server's limit."""
    settings = Settings()
    limit = int(re.search(r"max_connections=(\d+)", " ".join(compose["services"]["postgres"]["command"]))[1])  # type: ignore[index]
    replicas = {name: service.get("deploy", {}).get("replicas", 1) for name, service in compose["services"].items()}
    threads = settings.api_threads + PASSWORD_THREADS + WATCHING_THREADS
    api = replicas["api"] * settings.api_processes * (max(settings.database_pool_size, threads) + threads)
    simulated = SimulatorOptions(url=SecretStr("postgresql://")).pool_size
    workers = (replicas["worker"] + replicas["sweeper"]) * (settings.database_pool_size + simulated)
    assert api + workers < limit


def test_image_gets_what_the_build_needs() -> None:
    """Everything the Dockerfile copies exists and is not kept back by .dockerignore."""
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    assert copied
    for name in copied:
        assert (ROOT / name).exists()
        assert Path(name).parts[0] in kept
