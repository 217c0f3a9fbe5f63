"""Request signatures: HMAC-SHA1 over the sorted parameters, as CloudStack's clients compute them.

The API verifies signatures, and the client signs. Source: cloudstack-protocol.md 2.1.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import quote

JAVA, PYTHON, LIBCLOUD = "*", "*~", "*~[]"
"""The characters, besides letters, digits and ``.-_``, that each kind of client does not encode in values."""


def canonical(parameters: Mapping[str, str], *, bare: str = PYTHON) -> str:
    """Return the text that is signed: ``name=value`` pairs sorted by name, joined by ``&``, in lower case.

    Values are percent-encoded (a space as ``%20``), except the characters in ``bare``. The parameter ``signature``,
    in upper or lower case, is left out.
    """
    pairs = sorted((name, value) for name, value in parameters.items() if name.lower() != "signature")
    return "&".join(f"{name}={_encoded(value, bare)}" for name, value in pairs).lower()


def sign(parameters: Mapping[str, str], secret: str, *, bare: str = PYTHON) -> str:
    """Return the signature of decoded parameters, as base64 with padding."""
    message = canonical(parameters, bare=bare).encode()
    # The protocol prescribes SHA-1. Collisions of SHA-1 do not help to forge an HMAC.
    return base64.b64encode(hmac.new(secret.encode(), message, hashlib.sha1).digest()).decode("ascii")


def verify(parameters: Mapping[str, str], secret: str, signature: str) -> bool:
    """Return whether ``signature`` is valid for the parameters in the encoding of any known kind of client.

    Java's encoder, which is the reference of the protocol, encodes ``~`` and brackets; Python and Go do not encode
    ``~``, and Libcloud encodes neither. All encodings stand for the same parameters, so it is safe to accept each.
    Names are not encoded, so a name with ``&`` or ``=`` is rejected, because it could pass for several parameters.
    Each comparison takes constant time.
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
