"""``bulkdeploy check incus`` on a live cluster: what is there, and each thing that may be missing, by name."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bulkdeploy.drivers.incus.driver import access_of
from bulkdeploy.drivers.incus.options import IncusOptions
from bulkdeploy.drivers.incus.rest import Incus, path_of
from tests.incus.cluster import driver_options, why_not
from tests.support.processes.programs import BULKDEPLOY

if (reason := why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

PATIENCE_S = 60.0
NEW_CLIENT = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=stranger"


def check(folder: Path, options: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Exit code and lines of the check with these options."""
    settings = folder / "settings.toml"
    written = [f"{key} = {json.dumps(value)}" for key, value in options.items() if not isinstance(value, dict)]
    for key, table in options.items():
        if isinstance(table, dict):
            written += [
                f"[driver.incus.{key}]",
                *(f"{name} = {json.dumps(value)}" for name, value in table.items()),
            ]
    settings.write_text("\n".join([f'data_dir = "{folder}/data"', "[driver.incus]", *written]) + "\n")
    command = [sys.executable, *BULKDEPLOY, "--config", str(settings), "check", "incus"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout.splitlines()


def test_a_cluster_that_has_everything_passes_and_nothing_is_left(tmp_path: Path) -> None:
    """Members, pool, network, events, fences: each a line."""
    code, lines = check(tmp_path, driver_options())
    named = [line.partition("ok       ")[2].partition(":")[0] for line in lines]
    members = ["member member1", "member member2"]
    assert (code, named) == (
        0,
        ["connection", "trust", *members, "storage pool local", "network guests", "events", "fences"],
    )
    incus = Incus(access_of(IncusOptions.model_validate(driver_options())))
    instances = incus.send("GET", path_of("instances"), timeout_s=PATIENCE_S).value
    incus.close()
    assert not [one for one in instances or () if "bulkdeploy-check" in one]


@pytest.mark.parametrize(
    ("changed", "missing", "remedy"),
    [
        ({"urls": ["https://192.0.2.99:8443"]}, "connection", "name every member's URL"),
        ({"fingerprint": "ab" * 32}, "connection", "name every member's URL"),
        ({"storage_pools": {"shared": "elsewhere"}}, "storage pool elsewhere", "incus storage create"),
        ({"default_label": "nowhere"}, "network nowhere", "incus network create"),
        ({"images": {"debian12": "no-such-image"}}, "image of template debian12", "incus image copy"),
        ({"project": "no-such-project"}, "connection", "name every member's URL"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, changed: Mapping[str, Any], missing: str, remedy: str) -> None:
    """The line says what, the next one how to mend it."""
    code, lines = check(tmp_path, {**driver_options(), **changed})
    assert code == 1
    assert lines[-2].startswith(f"missing  {missing}: ")
    assert remedy in lines[-1]


def test_a_client_that_the_cluster_does_not_trust_is_told_so(tmp_path: Path) -> None:
    """It is answered, and may see nothing."""
    certificate, key = str(tmp_path / "client.crt"), str(tmp_path / "client.key")
    subprocess.run([*NEW_CLIENT.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    code, lines = check(tmp_path, {**driver_options(), "certificate": certificate, "key": key})
    assert (code, lines[-2:]) == (
        1,
        ["missing  trust: untrusted", "         on a member: incus config trust add-certificate CLIENT.crt"],
    )
