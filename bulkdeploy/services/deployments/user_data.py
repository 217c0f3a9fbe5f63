"""The format of user data in deploy calls and in the database (cloudstack-protocol.md 5.5)."""

import base64
import binascii
import re
from urllib.parse import unquote_plus

from bulkdeploy.domain.errors import InvalidParameter

MOST_BY_GET = 4096
MOST_BY_POST = 1048576
BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
LINE_BREAKS = re.compile(r"[ \t]*[\r\n]+[ \t]*")


def check_user_data(given: str, *, method: str, most: int) -> str:
    """Return user data in its stored form: base64 with padding and without line breaks.

    Text that still contains ``%`` is URL-decoded once more, as CloudStack does for clients that encode twice.
    ``most`` is the setting ``vm.userdata.max.length``, in base64 characters.

    Raises:
        InvalidParameter: the user data is not base64, is empty, or is longer than the method or the setting allows.
    """
    encoded = unquote_plus(given) if "%" in given else given
    encoded = LINE_BREAKS.sub("", encoded).rstrip()
    if not BASE64.fullmatch(encoded):
        raise _refused(encoded, "User data is not base64 encoded")
    if method == "GET" and len(encoded) >= MOST_BY_GET:
        raise _refused(
            encoded, f"User data is too long for an http GET request: fewer than {MOST_BY_GET} characters fit"
        )
    if len(encoded) >= MOST_BY_POST:
        raise _refused(
            encoded, f"User data is too long for an http POST request: fewer than {MOST_BY_POST} characters fit"
        )
    if len(encoded) > most:
        raise _refused(encoded, f"User data has exceeded configurable max length : {most}")
    padded = encoded.rstrip("=")
    padded += "=" * (-len(padded) % 4)
    try:
        decoded = base64.b64decode(padded, validate=True)
    except binascii.Error:
        raise _refused(encoded, "User data is not base64 encoded") from None
    if not decoded:
        raise _refused(encoded, "User data is too short")
    return padded


def _refused(value: str, rule: str) -> InvalidParameter:
    shown = value if len(value) <= 40 else f"{value[:37]}... ({len(value)} characters)"
    return InvalidParameter("userdata", shown, rule)
