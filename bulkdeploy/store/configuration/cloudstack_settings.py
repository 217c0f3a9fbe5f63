"""All settings of CloudStack by name: those that bulkdeploy honours, and those that it only stores.

``cloudstack_settings.csv`` has names, types, defaults, categories, scopes and parents. A setting without effect
is validated by its type, stored and returned, so that tools can set it. Its description says that it has no effect.
"""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from bulkdeploy.domain.configuration import BY_NAME, Scope, Setting, ValueType

SETTINGS_FILE = Path(__file__).with_name("cloudstack_settings.csv")


@cache
def all_settings() -> Mapping[str, Setting]:
    """Return all settings by name, including CloudStack's settings that have no effect here."""
    with SETTINGS_FILE.open(newline="") as file:
        return {row["name"]: _setting_without_effect(row) for row in csv.DictReader(file)} | BY_NAME


def _setting_without_effect(row: Mapping[str, str]) -> Setting:
    known = {scope.value: scope for scope in Scope}
    scopes = [known[name] for name in row["scopes"].split() if name in known and name != Scope.GLOBAL.value]
    return Setting(
        row["name"],
        row["default"],
        ValueType(row["type"]),
        "Has no effect here. The value is stored and returned for tools that set it.",
        row["category"],
        scopes[0] if scopes else Scope.GLOBAL,
        other_scopes=tuple(scopes[1:]),
        lists_timeouts=row["name"] == "commands.timeout",
        has_effect=False,
        parent=row["parent"] or None,
    )
