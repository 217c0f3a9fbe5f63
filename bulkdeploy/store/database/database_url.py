"""The URL of the database in the format of libpq: one or several servers, with any parameters."""

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

LAST_PORT = 65535


def database_parameters(url: str) -> dict[str, str]:
    """Return libpq's parameters of ``url``. SQLAlchemy's scheme ``postgresql+psycopg`` is accepted, too.

    Raises:
        ValueError: libpq rejects the URL. The error says why and does not show the password.
    """
    scheme, _, rest = url.partition("://")
    scheme = scheme.partition("+")[0]
    try:
        found = conninfo_to_dict(f"{scheme}://{rest}")
    except ProgrammingError as error:
        raise ValueError(f"must be a URL that libpq reads: {_without_user(scheme, rest)}") from error
    ports = (port for port in str(found.get("port", "")).split(",") if port)
    if any(not port.isdecimal() or not 0 < int(port) <= LAST_PORT for port in ports):
        raise ValueError(f"must be a URL that libpq reads: with ports from 1 to {LAST_PORT}")
    return {name: str(value) for name, value in found.items()}


def _without_user(scheme: str, rest: str) -> str:
    """Return libpq's error about a URL.

    Libpq's text quotes the URL, so user and password are removed from it first.
    """
    try:
        conninfo_to_dict(f"{scheme}://{rest.rpartition('@')[2]}")
    except ProgrammingError as error:
        return str(error).strip()
    return "special characters in user and password must be percent-encoded"
