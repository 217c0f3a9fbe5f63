"""URLs without their credentials, for display."""

import re
from urllib.parse import urlsplit, urlunsplit

HIDDEN = "***"
SECRET_NAMES = re.compile(r"pass|pwd|secret|token|sig|key(?!file)|cred|auth", re.IGNORECASE)
"""Names of query parameters whose values are credentials, such as ``X-Amz-Signature`` or ``sig``."""

ACCOUNTS = ("qemu",)
"""Schemes whose user, without a password, is the name of an account and no secret."""


def redact_url(url: str) -> str:
    """Replace the user, the password and the credentials of the query of a URL by ``***``."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return HIDDEN
    user, at, place = parts.netloc.rpartition("@")
    if at and (":" in user or parts.scheme.partition("+")[0] not in ACCOUNTS):
        place = f"{HIDDEN}@{place}"
    elif at:
        place = parts.netloc
    given = (one.partition("=") for one in parts.query.split("&"))
    query = "&".join(
        f"{name}={HIDDEN}" if equals and SECRET_NAMES.search(name) else f"{name}{equals}{value}"
        for name, equals, value in given
    )
    return urlunsplit(parts._replace(netloc=place, query=query))
