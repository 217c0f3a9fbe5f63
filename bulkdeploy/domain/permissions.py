"""Rules of roles: which APIs a role allows or denies.

Source: CloudStack's dynamic roles (reference section 2.3): the first rule that matches decides;
where none does, the role types that the API names decide.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoleRule:
    """One rule of a role; ``pattern`` is an API's name in any case, ``*`` standing for any letters."""

    pattern: str
    allow: bool

    def matches(self, api: str) -> bool:
        """Whether the rule speaks about the API of this name."""
        if "*" not in self.pattern:
            return self.pattern.lower() == api.lower()
        expression = r"\w*".join(re.escape(part) for part in self.pattern.split("*"))
        return re.fullmatch(expression, api, re.IGNORECASE) is not None


def verdict(rules: Sequence[RoleRule], api: str) -> bool | None:
    """True or False as the first matching rule says; None where no rule matches."""
    return next((rule.allow for rule in rules if rule.matches(api)), None)
