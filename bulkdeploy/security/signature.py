"""Request signatures: HMAC-SHA1 over the sorted parameters, as CloudStack's clients make them.

Used by the API to verify and by the client to sign. Source: cloudstack-protocol.md 2.1.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import quote

JAVA, PYTHON, LIBCLOUD = "*", "*~", "*~[]"
"""What each family of clients leaves bare in values, beside letters, digits and ``.-_``."""


def canonical(parameters: Mapping[str, str], *, bare: str = PYTHON) -> str:
    """Return the text that is signed: ``name=value`` pairs sorted by name, joined by ``&``, in lower case.

    Names are not changed. Values are percent-encoded (space as ``%20``), except the characters in ``bare``. The
    parameter ``signature``, in any case, is omitted.
    """
    pairs = sorted((name, value) for name, value in parameters.items() if name.lower() != "signature")
    return "&".join(f"{name}={_encoded(value, bare)}" for name, value in pairs).lower()


def sign(parameters: Mapping[str, str], secret: str, *, bare: str = PYTHON) -> str:
    """Return the signature of these (decoded) parameters: base64 with padding."""
    message = canonical(parameters, bare=bare).encode()
    # The protocol prescribes SHA-1; within an HMAC its collisions are of no use to a forger.
    return base64.b64encode(hmac.new(secret.encode(), message, hashlib.sha1).digest()).decode("ascii")


def verify(parameters: Mapping[str, str], secret: str, signature: str) -> bool:
    """Return whether ``signature`` is valid for these parameters in the encoding of any known client.

    Java's encoder (the reference of the protocol) writes ``~`` and brackets as ``%XX``. Python and Go do not encode
    ``~``, and Libcloud does not encode brackets either. All forms encode the same parameters, so accepting each of
    them accepts nothing that was not signed. Names are signed as they are written. A name with ``&`` or ``=`` is
    rejected, because it could pass for several parameters. Each comparison takes constant time.
    """
    if any("&" in name or "=" in name for name in parameters):
        return False
    values = "".join(parameters.values())
    forms = [JAVA]
    if "~" in values:
        forms.append(PYTHON)
    if "[" in values or "]" in values:
        forms.append(LIBCLOUD)
    given = signature.encode()
    return any(hmac.compare_digest(sign(parameters, secret, bare=bare).encode(), given) for bare in forms)


def _encoded(value: str, bare: str) -> str:
    quoted = quote(value, safe=bare)
    return quoted if "~" in bare else quoted.replace("~", "%7E")
