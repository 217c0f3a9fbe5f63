"""Job results as they are stored: JSON objects that are written once (cloudstack-protocol.md 3)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

WIRE_DATE = "%Y-%m-%dT%H:%M:%S%z"
RESULT_FORM = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS
"""Names of columns are a kind of text of their own, which orjson takes only when told to."""


ENCRYPTED_PASSWORD = "encryptedpassword"  # noqa: S105 - a name
"""Where a VM in a result has the password of its guest, which only readers of the job itself see decrypted."""


def object_result(key: str, row: Mapping[str, Any]) -> str:
    """Return the result of a success as JSON: one object under its key. Fields with the value None are omitted."""
    # converts SQLAlchemy's column labels to plain text
    present = {str(name): value for name, value in row.items() if value is not None}
    return orjson.dumps({key: present}, default=_wire_value, option=RESULT_FORM).decode()


SUCCESS_RESULT = orjson.dumps({"success": True}).decode()
"""A success that has nothing to show."""


def _wire_value(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime(WIRE_DATE)
    raise TypeError(f"{type(value).__name__} has no form in a job's result")
