"""Prints the oldest version of each dependency that pyproject.toml allows, as constraints for pip."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
for wanted in (*project["dependencies"], *project["optional-dependencies"]["embedded"]):
    found = re.match(r"([\w-]+)(?:\[[\w,]+\])?(?:>=|==)([\d.]+)", wanted)
    if found is None:
        sys.exit(f"{wanted}: a lower bound must be given")
    print(f"{found[1]}=={found[2]}")  # noqa: T201 - its purpose
