"""The stored form of a deployment's plan, with the counts of all clusters as texts.

With 1,000 clusters, four texts cost PostgreSQL a fraction of the time of lists of numbers in JSONB, or of
``bigint[]`` (ADR 10).
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Dialect, TypeDecorator
from sqlalchemy.dialects.postgresql import JSONB

COLUMNS = ("clusters", "before", "room", "added")
"""Parts of a plan that are lists of integers, one per cluster."""


class StoredPlan(TypeDecorator[Mapping[str, Any]]):
    """A column type for plans: some parts are lists in Python and texts in the database; others are unchanged."""

    impl = JSONB
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, Any] | None, dialect: Dialect) -> dict[str, Any] | None:
        """Convert the lists of a plan to texts for the database."""
        del dialect
        if value is None:
            return None
        return {key: " ".join(map(str, part)) if key in COLUMNS else part for key, part in value.items()}

    def process_result_value(self, value: Mapping[str, Any] | None, dialect: Dialect) -> dict[str, Any] | None:
        """Convert the texts of a stored plan to lists again.

        Plans that were stored with lists are accepted, too.
        """
        del dialect
        if value is None:
            return None
        return {
            key: [int(one) for one in part.split()] if _is_text(key, part) else part for key, part in value.items()
        }


def _is_text(key: str, part: object) -> bool:
    return key in COLUMNS and isinstance(part, str)
