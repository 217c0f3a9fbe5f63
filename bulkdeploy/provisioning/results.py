"""Results that only workers write."""

import orjson

from bulkdeploy.provisioning.outcome import Failed


def failure_result(failed: Failed) -> str:
    """A failure: the code and the reason (reference section 3)."""
    return orjson.dumps({"errorcode": failed.error_code, "errortext": failed.text}).decode()
