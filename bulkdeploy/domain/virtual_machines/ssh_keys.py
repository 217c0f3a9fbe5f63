"""SSH public keys in OpenSSH's one-line form."""

import base64
import binascii
import hashlib


def fingerprint(public_key: str) -> str:
    """Return the MD5 fingerprint of a public key, as CloudStack shows it: ``ab:cd:...``.

    Raises:
        ValueError: the text is not a public key.
    """
    kind, _, rest = public_key.strip().partition(" ")
    try:
        blob = base64.b64decode(rest.split(" ", 1)[0], validate=True)
    except binascii.Error as error:
        raise ValueError("the key is not base64 text") from error
    length = int.from_bytes(blob[:4], "big")
    if not kind or blob[4 : 4 + length] != kind.encode():
        raise ValueError(f"the text does not contain a key of type {kind}")
    digest = hashlib.md5(blob, usedforsecurity=False).hexdigest()
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))
