"""Promises of the container files: valid, and nothing in them that does not exist."""

import json
import re
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml
from pydantic import SecretStr

from bulkdeploy.drivers.simulator.options import SimulatorOptions
from bulkdeploy.manage.main import main
from bulkdeploy.manage.programs.api import GRACEFUL_SECONDS, LAST_CALLS_SECONDS
from bulkdeploy.services.system import PASSWORD_THREADS, WATCHING_THREADS
from bulkdeploy.wiring.settings import ENVIRONMENT_PREFIX, Settings

ROOT = Path(__file__).parents[2]
IMAGE = f"bulkdeploy:${{BULKDEPLOY_VERSION:-{version('bulkdeploy')}}}"
"""The release that the file belongs to, unless somebody says another one."""


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
    # The package itself is not imported: what it imports is for newer releases of click than the product needs.
    file = distribution("check-jsonschema").locate_file("check_jsonschema/builtin_schemas/vendor/compose-spec.json")
    jsonschema.validate(compose, json.loads(Path(str(file)).read_text()))


def test_every_command_exists(programs: dict[str, dict[str, Any]]) -> None:
    """Each service runs a subcommand of the product, to its last word."""
    for service in programs.values():
        assert not isinstance(walk(service["command"]), click.Group) or service["command"] == ["--help"]


def test_every_part_of_the_service_runs(programs: dict[str, dict[str, Any]]) -> None:
    """API, workers and sweeper are there, and the schema is upgraded before any of them starts."""
    commands = {service["command"][0]: service for service in programs.values()}
    for part in ("api", "worker", "sweeper"):
        assert commands[part]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert programs["migrate"]["command"] == ["db", "upgrade", "--half", "pre"]


def test_one_image_is_built(programs: dict[str, dict[str, Any]]) -> None:
    """All programs run the image that one service builds."""
    assert [name for name, service in programs.items() if "build" in service] == ["migrate"]


def test_no_service_may_more_than_it_needs(compose: dict[str, Any]) -> None:
    """No capabilities, no new privileges, nothing to write to but what is named, and bounds for all it takes."""
    for name, service in compose["services"].items():
        assert service["cap_drop"] == ["ALL"]
        assert service.get("cap_add", []) == (["NET_BIND_SERVICE"] if name == "proxy" else [])
        assert "no-new-privileges:true" in service["security_opt"]
        assert service["read_only"] is True
        assert {"mem_limit", "cpus", "pids_limit"} <= set(service)
        assert {"max-size", "max-file"} <= set(service["logging"]["options"])


def test_programs_are_given_the_time_they_need_to_end(programs: dict[str, dict[str, Any]]) -> None:
    """Workers and sweepers their longest driver call, API processes their delay and the calls in hand."""
    for name in ("worker", "sweeper"):
        minutes = int(programs[name]["stop_grace_period"].removesuffix("m"))
        assert minutes * 60 > Settings().driver_timeout_seconds
    delay = programs["api"]["environment"]["BULKDEPLOY_SHUTDOWN_DELAY_SECONDS"]
    assert (
        int(programs["api"]["stop_grace_period"].removesuffix("s")) > delay + LAST_CALLS_SECONDS + GRACEFUL_SECONDS
    )


def test_the_image_says_by_number_who_runs_in_it() -> None:
    """Kubernetes cannot see that a name is not root's; the data directory is that account's."""
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert user is not None
    mounts = (ROOT / "docker-compose.yml").read_text()
    assert f"/var/lib/bulkdeploy:uid={user[1]},gid={user[2]},mode=0700" in mounts


def test_every_setting_exists(programs: dict[str, dict[str, Any]]) -> None:
    """Variables with our prefix, here and in the image, are names of settings."""
    in_image = re.findall(rf"\b{ENVIRONMENT_PREFIX}(\w+)=", (ROOT / "Dockerfile").read_text())
    in_compose = [name for service in programs.values() for name in service["environment"]]
    names = {*in_image, *(name.removeprefix(ENVIRONMENT_PREFIX).partition("__")[0] for name in in_compose)}
    assert names <= {name.upper() for name in Settings.model_fields}
    assert "DATABASE_URL" in names


def test_values_given_are_accepted(
    programs: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With their placeholders filled in and secrets in their files, the values are good settings."""
    (tmp_path / "secret").write_text("secret\n")
    for service in programs.values():
        for name, value in service["environment"].items():
            filled = re.sub(
                r"\$\{\w+(:-([^}]*)|:\?[^}]*)\}", lambda it: it[2] if it[1][1] == "-" else "simulator", str(value)
            )
            monkeypatch.setenv(name, str(tmp_path / "secret") if name.endswith("_FILE") else filled)
        assert Settings().database_url == "postgresql://bulkdeploy:secret@postgres:5432/bulkdeploy"
        assert Settings().redis_url == "redis://:secret@redis:6379/0"
        assert Settings().drivers == {"default": "simulator"}


def test_secrets_stand_in_files_of_their_own(compose: dict[str, Any]) -> None:
    """No variable holds one: each names the file of a secret, which its service is given."""
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET", name):
                assert name.endswith("_FILE")
                assert Path(value).parent == Path("/run/secrets")
                assert Path(value).name in service["secrets"]
            assert not re.search("://[^/]*:[^/]*@", str(value))
        assert set(service.get("secrets", [])) <= set(compose["secrets"])


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
    replicas = {
        name: int(re.sub(r"\D", "", str(service.get("deploy", {}).get("replicas", 1))))
        for name, service in compose["services"].items()
    }
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


def test_the_base_image_is_named_by_its_digest() -> None:
    """Another image under the same tag is not used, in any stage."""
    text = (ROOT / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert set(bases) == {"${IMAGE_BASE}"}
    assert re.search(r"^ARG IMAGE_BASE=[\w.:/-]+@sha256:[0-9a-f]{64}$", text, re.MULTILINE)


def test_the_proxy_is_trusted_in_a_network_of_its_own(compose: dict[str, Any]) -> None:
    """The API believes the network that only the proxy shares with it."""
    subnet = compose["networks"]["proxy"]["ipam"]["config"][0]["subnet"]
    inside = {name for name, service in compose["services"].items() if "proxy" in service.get("networks", ())}
    assert inside == {"api", "proxy"}
    assert compose["services"]["proxy"]["networks"] == ["proxy"]
    assert compose["services"]["api"]["environment"]["BULKDEPLOY_TRUSTED_PROXIES"] == f'["{subnet}"]'
