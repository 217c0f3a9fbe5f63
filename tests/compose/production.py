"""docker-compose.yml as an operator has it: a copy of what a release brings, and the commands of the guides."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.architecture.test_imports import ROOT
from tests.support.api.api_client import ApiClient

RELEASE = ("bulkdeploy", "workers", "config", "docker-compose.yml", "Dockerfile", ".dockerignore", "pyproject.toml")
TEXTS = ("README.md", "LICENSE")


def commands_of(guide: str, heading: str, number: int = 0) -> str:
    """The block of commands with this number below a heading of a guide, word for word."""
    text = (ROOT / guide).read_text()
    section = re.split(rf"^## {re.escape(heading)}$", text, flags=re.MULTILINE)[1].split("\n## ")[0]
    return str(re.findall(r"^```\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)[number])


class Production:
    """One installation, in a directory of its own."""

    def __init__(self, place: Path, port: int) -> None:
        self.place, self.url = place, f"http://127.0.0.1:{port}"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BULKDEPLOY_")},
            "COMPOSE_PROJECT_NAME": "bulkdeploy-test",
            "BULKDEPLOY_PUBLISH": f"127.0.0.1:{port}:8080",
            "IMAGE_BASE": "python:3.13-slim",  # here a stand-in may have this name (make_images.sh)
        }
        for name in (*RELEASE, *TEXTS):
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, place / name)

    def shell(self, commands: str, **variables: str) -> str:
        """Run commands as an operator types them; what they print."""
        ended = subprocess.run(
            ["sh", "-eux", "-c", commands],
            cwd=self.place,
            env={**self._environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if ended.returncode:
            raise AssertionError(f"{commands}\n{ended.stdout}\n{ended.stderr[-4000:]}")
        return ended.stdout

    def tool(self, arguments: str) -> str:
        """A command of the product, in a container."""
        return self.shell(f"docker compose run --rm --no-deps -T bulkdeploy {arguments}")

    def client(self) -> ApiClient:
        """The admin, through the proxy."""
        found = json.loads(self.tool("admin credentials --json"))
        return ApiClient(self.url, found["apikey"], found["secretkey"])

    def containers(self, service: str) -> list[str]:
        """Ids of a service's containers."""
        return self.shell(f"docker compose ps --quiet {service}").split()

    def details(self, container: str) -> Mapping[str, Any]:
        """What the engine knows of a container."""
        return dict(json.loads(self.shell(f"docker inspect {container}"))[0])

    def calls_answered(self) -> list[int]:
        """How many calls each API container has answered, as its own metrics have it."""
        calls = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9090/metrics').read().decode())"
        shown = [self.shell(f'docker exec {one} python -c "{calls}"') for one in self.containers("api")]
        counted = re.compile(r"^bulkdeploy_call_seconds_count (\S+)", re.MULTILINE)
        return [int(float(counted.findall(text)[0])) for text in shown]

    def kill(self, service: str) -> None:
        """SIGKILL for the first process of each container, from outside, as if it had crashed."""
        for container in self.containers(service):
            os.kill(self.details(container)["State"]["Pid"], signal.SIGKILL)

    def audit(self) -> list[str]:
        """Every breach, in words."""
        ended = subprocess.run(
            ["docker", "compose", "run", "--rm", "--no-deps", "-T", "bulkdeploy", "audit", "--json"],
            cwd=self.place,
            env=self._environment,
            capture_output=True,
            text=True,
        )
        return [breach for finding in json.loads(ended.stdout)["findings"] for breach in finding["breaches"]]

    def remove(self) -> None:
        """Everything of it."""
        self.shell("docker compose --profile tools down --volumes --timeout 20")
