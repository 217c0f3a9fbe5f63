"""The groups and subgroups in which CloudStack's settings page shows settings.

``setting_groups.csv`` lists the subgroups in the order of the page, each with words. A setting belongs to the
subgroup of the first word in the setting's name that is the name or a word of a subgroup.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

GROUPS_FILE = Path(__file__).with_name("setting_groups.csv")


@dataclass(frozen=True, slots=True)
class SettingGroup:
    """A subgroup and the group that it is a part of."""

    group: str
    subgroup: str


OTHERS = SettingGroup("Miscellaneous", "Others")


@cache
def all_groups() -> Sequence[SettingGroup]:
    """Return all subgroups in their order."""
    with GROUPS_FILE.open(newline="") as file:
        return tuple(SettingGroup(row["group"], row["subgroup"]) for row in csv.DictReader(file))


@cache
def group_of(setting: str) -> SettingGroup:
    """Return the group and subgroup of a setting, according to the words in its name, or OTHERS if none match."""
    by_word = _groups_by_word()
    found = (by_word[word] for word in setting.lower().split(".") if word in by_word)
    return next(found, OTHERS)


@cache
def _groups_by_word() -> Mapping[str, SettingGroup]:
    with GROUPS_FILE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    words: dict[str, SettingGroup] = {}
    for row in rows:
        group = SettingGroup(row["group"], row["subgroup"])
        words |= {word.lower(): group for word in row["keywords"].split()}
    return words | {row["subgroup"].lower(): SettingGroup(row["group"], row["subgroup"]) for row in rows}
