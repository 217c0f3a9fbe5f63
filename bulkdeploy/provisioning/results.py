"""Job results as they are kept: JSON objects, written once (reference section 3)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from bulkdeploy.provisioning.outcome import Failed

WIRE_DATE = "%Y-%m-%dT%H:%M:%S%z"


def virtual_machine_result(row: Mapping[str, Any]) -> str:
    """A success: the VM by wire names; absent values are left out."""
    present = {name: value for name, value in row.items() if value is not None}
    return orjson.dumps(
        {"virtualmachine": present}, default=_wire_value, option=orjson.OPT_PASSTHROUGH_DATETIME
    ).decode()


def failure_result(failed: Failed) -> str:
    """A failure: the code and the reason."""
    return orjson.dumps({"errorcode": failed.error_code, "errortext": failed.text}).decode()


GONE_RESULT = orjson.dumps({"success": True}).decode()
"""A success whose VM has no row to show any more."""


def _wire_value(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime(WIRE_DATE)
    raise TypeError(f"{type(value).__name__} has no form in a job's result")
