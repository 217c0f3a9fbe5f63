"""Prints constraints for pip: the oldest versions that pyproject.toml allows; of all else, none newer than locked.

What was released since the lock file was written can then not make a run fail.
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
oldest = {}
for wanted in (*project["dependencies"], *project["optional-dependencies"]["embedded"]):
    found = re.match(r"([\w-]+)(?:\[[\w,]+\])?(?:>=|==)([\d.]+)", wanted)
    if found is None:
        sys.exit(f"{wanted}: a lower bound must be given")
    oldest[found[1]] = found[2]
locked = re.findall(r"^([\w.-]+)==([\w.]+)", Path("requirements.lock").read_text(), re.MULTILINE)
constraints = {name: f"<={version}" for name, version in locked} | {
    name: f"=={version}" for name, version in oldest.items()
}
for name, version in constraints.items():
    print(f"{name}{version}")  # noqa: T201 - its purpose
