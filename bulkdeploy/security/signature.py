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
    """Return the text that is signed: ``name=value`` pairs sorted by name, joined by ``&``, lower-cased.

    Names stay as they are written, values are percent-encoded (space as ``%20``) but for the
    characters in ``bare``. ``signature`` itself, in any case, is left out.
    """
    pairs = sorted((name, value) for name, value in parameters.items() if name.lower() != "signature")
    return "&".join(f"{name}={_encoded(value, bare)}" for name, value in pairs).lower()


def sign(parameters: Mapping[str, str], secret: str, *, bare: str = PYTHON) -> str:
    """Return the signature of these (decoded) parameters: base64 with padding."""
    message = canonical(parameters, bare=bare).encode()
    # The protocol prescribes SHA-1; within an HMAC its collisions are of no use to a forger.
    return base64.b64encode(hmac.new(secret.encode(), message, hashlib.sha1).digest()).decode("ascii")


def verify(parameters: Mapping[str, str], secret: str, signature: str) -> bool:
    """Return whether ``signature`` is one that any known client would make of these parameters.

    Java's encoder (the protocol's reference) writes ``~`` and brackets as ``%XX``, Python's and
    Go's leave ``~`` bare, Libcloud leaves brackets bare, too. Each form is of the same parameters,
    so taking all of them accepts nothing that was not signed. Names are signed as they are written:
    one with ``&`` or ``=`` could pass for several parameters and is never right. Each comparison
    takes constant time.
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
