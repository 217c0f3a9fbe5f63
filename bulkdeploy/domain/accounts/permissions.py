"""The rules of a role: which APIs the role allows and which it denies.

The semantics are those of CloudStack's dynamic roles. The rules are compared in their order, and the first rule
that matches the API decides. If no rule matches, only the role types in the command's ``authorized`` may call it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

SEPARATOR = "\n"
"""Separates the rules in the text of ``parse_rules``; no rule contains it."""

MOST_PARSED = 256
"""How many sets of rules a process keeps parsed: all callers of one role share one."""


@dataclass(frozen=True, slots=True)
class RoleRule:
    """A rule of a role. ``pattern`` is the name of an API in any case; ``*`` matches any letters."""

    pattern: str
    allow: bool

    def matches(self, api: str) -> bool:
        """Return whether the rule applies to the API of this name."""
        expression = r"\w*".join(re.escape(part) for part in self.pattern.split("*"))
        return re.fullmatch(expression, api, re.IGNORECASE) is not None


@dataclass(frozen=True)
class RoleRules:
    """The rules of a role in their order. A rule without ``*`` is found by its name without a search."""

    rules: tuple[RoleRule, ...] = ()

    def verdict(self, api: str) -> bool | None:
        """Return whether the first matching rule allows an API, or None if no rule matches."""
        position, verdict = self._exact.get(api.lower(), (len(self.rules), None))
        for place, rule in self._patterns:
            if place >= position:
                break
            if rule.matches(api):
                return rule.allow
        return verdict

    @cached_property
    def _exact(self) -> Mapping[str, tuple[int, bool]]:
        found: dict[str, tuple[int, bool]] = {}
        for place, rule in enumerate(self.rules):
            if "*" not in rule.pattern:
                found.setdefault(rule.pattern.lower(), (place, rule.allow))
        return found

    @cached_property
    def _patterns(self) -> tuple[tuple[int, RoleRule], ...]:
        return tuple((place, rule) for place, rule in enumerate(self.rules) if "*" in rule.pattern)


NO_RULES = RoleRules()


def rules_of(pairs: Iterable[tuple[str, bool]]) -> RoleRules:
    """Create rules from pairs of pattern and whether the rule allows."""
    return RoleRules(tuple(RoleRule(pattern, allow) for pattern, allow in pairs))


@lru_cache(MOST_PARSED)
def parse_rules(text: str | None) -> RoleRules:
    """Parse the rules in a text: lines of ``+`` (allow) or ``-`` (deny) and the pattern. None means no rules."""
    if not text:
        return NO_RULES
    return rules_of((line[1:], line[0] == "+") for line in text.split(SEPARATOR))
