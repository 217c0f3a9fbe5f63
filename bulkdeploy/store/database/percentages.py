"""Percentages in CloudStack's format."""

from sqlalchemy import ColumnElement, Numeric, Text, cast, func, literal_column


def percent(share: ColumnElement[int]) -> ColumnElement[str]:
    """Return the SQL expression that formats hundredths of a percent as CloudStack does, such as ``3.5%``."""
    value = func.trim_scale(cast(share, Numeric) / 100)
    return cast(value, Text).concat(literal_column("'%'", Text))
