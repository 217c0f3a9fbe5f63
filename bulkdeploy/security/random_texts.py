"""Random texts that are secrets, such as keys and passwords."""

import secrets


def random_text(size_bytes: int) -> str:
    """Letters, digits, ``-`` and ``_`` of this much chance, as text that no command line takes for an option.

    The first sign is a letter or a digit: ``cmk set secretkey -x...`` and shells would read ``-x`` as a flag.
    """
    while not (text := secrets.token_urlsafe(size_bytes))[0].isalnum():
        pass
    return text
