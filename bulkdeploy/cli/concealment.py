"""The detection and masking of secrets on the screen, in history and in process lists.

Standard library only and quick to import: the arguments are concealed before anything else is done.
"""

import getpass
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

SECRET_NAMES = frozenset({"apikey", "secretkey", "password", "sessionkey", "userapikey", "usersecretkey"})
"""Parameters, settings and answer fields that are secret; any name that ends in ``password`` is, too."""

SECRET_OPTIONS = frozenset({"-k", "--apikey", "-s", "--secretkey"})
HIDDEN = "********"
CONCEALED_ARGUMENTS = "BULKMONKEY_CONCEALED_ARGUMENTS"
MOST_BYTES = 60_000  # less than the capacity of a pipe without a reader

LOGIN_IN_URL = re.compile(r"(?i)\brbd://(?P<login>[^@\s]+)@")
"""The login of a Ceph user in the URL of a storage pool."""

_SECRET_NAME = r"(?:apikey|secretkey|sessionkey|userapikey|usersecretkey|\w*password)"  # noqa: S105 - a pattern
SECRET_TEXT = re.compile(
    rf"(?ix) (?: \b{_SECRET_NAME}= | \bset\s+{_SECRET_NAME}\s+ "
    r"| (?:^|\s)(?:-[ks]\s*|--(?:apikey|secretkey)(?:\s+|=)) )"
    r"(?P<secret>\"[^\"]*\"?|'[^']*'?|[^\s\"']+)"
)


def is_secret(name: str) -> bool:
    """Return whether a parameter, setting or field with this name contains a secret."""
    lower = name.lower()
    return lower in SECRET_NAMES or lower.endswith("password")


def secret_spans(text: str) -> list[tuple[int, int]]:
    """Return the positions of secrets in a typed line as (start, end).

    References such as ``@file`` are no secrets.
    """
    spans = [match.span("secret") for match in SECRET_TEXT.finditer(text)]
    spans += [match.span("login") for match in LOGIN_IN_URL.finditer(text)]
    return sorted((start, end) for start, end in spans if not _refers(text[start:end]))


def without_login(value: str) -> str:
    """Return a value with the login of a Ceph user replaced, if it is the URL of such a storage pool."""
    return LOGIN_IN_URL.sub(lambda found: found[0].replace(found["login"], HIDDEN), value)


def prompt_secret(name: str) -> str:
    """Read a secret from the terminal without showing it, or from standard input if that is not a terminal."""
    if sys.stdin.isatty():
        return getpass.getpass(f"{name}: ")
    return sys.stdin.readline().rstrip("\r\n")


def without_secrets(value: Any) -> Any:
    """Return a copy of a response in which every secret field is replaced by ``HIDDEN``."""
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if is_secret(name) and isinstance(inner, str) else without_secrets(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(inner) for inner in value]
    return value


def conceal_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of the program. If one is a literal secret, the process first replaces itself.

    Other users of the machine can read a process's arguments. So the arguments are written to a pipe, and the
    program is executed again with ``HIDDEN`` in place of the secret; the new program reads the pipe. The secret is
    visible for the first milliseconds only. A profile, ``@FILE`` or ``-`` never shows it.
    """
    handed_over = os.environ.pop(CONCEALED_ARGUMENTS, None)
    if handed_over is not None:
        with os.fdopen(int(handed_over), encoding="utf-8") as pipe:
            return [str(argument) for argument in json.load(pipe)]
    shown = [_hide(arguments, position) for position in range(len(arguments))]
    if os.name != "posix" or shown == list(arguments):
        return list(arguments)
    _execute_anew(arguments, shown)
    return list(arguments)


def _hide(arguments: Sequence[str], position: int) -> str:
    argument = arguments[position]
    before = list(arguments[max(position - 2, 0) : position])
    if before and (before[-1] in SECRET_OPTIONS or (before[0] == "set" and is_secret(before[-1]))):
        return argument if _refers(argument) else HIDDEN
    name, equals, value = argument.partition("=")
    if name[:2] in ("-k", "-s") and len(argument) > 2 and not name.startswith("--"):
        return argument if _refers(argument[2:]) else name[:2] + HIDDEN
    if equals and is_secret(name.lstrip("-")):
        return argument if _refers(value) else f"{name}={HIDDEN}"
    return without_login(argument)


def _refers(value: str) -> bool:
    """Return whether a value is only a reference to the secret (``@file`` or ``-``)."""
    return value in ("", "-", HIDDEN) or value.startswith("@")


def _execute_anew(arguments: Sequence[str], shown: Sequence[str]) -> None:
    content = json.dumps(list(arguments)).encode()
    interpreter = sys.orig_argv
    if len(content) > MOST_BYTES or interpreter[len(interpreter) - len(arguments) :] != list(arguments):
        return
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    os.set_inheritable(reader, True)
    os.environ[CONCEALED_ARGUMENTS] = str(reader)
    start = interpreter[1 : len(interpreter) - len(arguments)]
    # The same interpreter and program as before; only the typed arguments come from outside.
    os.execv(sys.executable, [interpreter[0], *start, *shown])  # noqa: S606
