"""Random texts that are secrets, such as keys and passwords."""

import secrets


def random_text(size_bytes: int) -> str:
    """Return a random text of letters, digits, ``-`` and ``_``, made from ``size_bytes`` random bytes.

    The first character is a letter or a digit, so that no program takes the text for an option.
    """
    while not (text := secrets.token_urlsafe(size_bytes))[0].isalnum():
        pass
    return text
