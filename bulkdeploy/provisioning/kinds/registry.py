"""The registry of all job kinds: every ``JobKind`` that a module below this folder declares."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

import bulkdeploy.provisioning.kinds
from bulkdeploy.provisioning.job_kind import JobKind


class DuplicateKind(Exception):
    """Raised when two job kinds are declared with the same name."""


@cache
def job_kinds() -> Mapping[str, JobKind]:
    """Return all declared job kinds by name.

    Raises:
        DuplicateKind: a name is declared twice.
    """
    package = bulkdeploy.provisioning.kinds
    found: dict[str, JobKind] = {}
    for module in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}."):
        for kind in vars(importlib.import_module(module.name)).values():
            if isinstance(kind, JobKind) and found.setdefault(kind.name, kind) is not kind:
                raise DuplicateKind(f"{kind.name} is declared twice, the second time in {module.name}")
    return found
