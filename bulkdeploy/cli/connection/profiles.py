"""Settings and profiles: their names, their meaning, and their effective values for a command.

CloudMonkey's names are used where it has the same setting, so that its configuration file can be read unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit, urlunsplit

from bulkdeploy.cli.failures import UsageError

FORMATS = ("json", "table", "csv", "column", "text", "yaml")
DEFAULT_PROFILE = "localcloud"


class Kind(StrEnum):
    """The type of a setting, which determines how its text is read."""

    TEXT = "text"
    SECRET = "secret"  # noqa: S105 - a kind of setting
    BOOLEAN = "true or false"
    SECONDS = "seconds"
    FORMAT = "format"
    URL = "url"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of bulkmonkey.

    A setting of a profile is in the profile's section; other settings apply to all profiles.
    """

    name: str
    kind: Kind
    default: str
    description: str
    of_profile: bool = False


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting("profile", Kind.TEXT, DEFAULT_PROFILE, "the profile in use"),
        Setting("output", Kind.FORMAT, "", "output format; unset: table on a terminal, json elsewhere"),
        Setting("asyncblock", Kind.BOOLEAN, "true", "wait for asynchronous jobs"),
        Setting("timeout", Kind.SECONDS, "1800", "how long to wait for jobs; 0: without end"),
        Setting("requesttimeout", Kind.SECONDS, "120", "how long one HTTP request may take"),
        Setting("autocomplete", Kind.BOOLEAN, "true", "ask the server for values while completing"),
        Setting("pager", Kind.BOOLEAN, "true", "page output that is longer than the terminal"),
        Setting("prompt", Kind.TEXT, "", "prompt of the shell; unset: the profile's name"),
        Setting("url", Kind.URL, "http://localhost:8080/client/api", "the API's address", True),
        Setting("apikey", Kind.SECRET, "", "API key", True),
        Setting("secretkey", Kind.SECRET, "", "secret key", True),
        Setting("username", Kind.TEXT, "", "user to log in as, where there are no keys", True),
        Setting("password", Kind.SECRET, "", "the password of the user", True),
        Setting("domain", Kind.TEXT, "/", "that user's domain, as a path", True),
        Setting("confdservers", Kind.TEXT, "", "addresses of confd servers, with commas between them", True),
        Setting("confdkeyfile", Kind.TEXT, "", "file with the key of these confd servers", True),
        Setting("verifycert", Kind.BOOLEAN, "true", "refuse a server whose certificate does not verify", True),
    )
}


@dataclass(frozen=True, slots=True)
class Connection:
    """The address of the API and the credentials of its caller."""

    profile: str
    url: str
    apikey: str = field(default="", repr=False)
    secretkey: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    domain: str = "/"
    verifycert: bool = True
    requesttimeout: float = 120.0


@dataclass(frozen=True, slots=True)
class Preferences:
    """The preferences of commands.

    ``timeout`` is in seconds (None: no limit). ``output`` is the output format; if it is None, each command chooses
    its own format.
    """

    output: str | None = None
    asyncblock: bool = True
    timeout: float | None = 1800.0
    autocomplete: bool = True
    pager: bool = True
    prompt: str = ""


def checked(name: str, value: str) -> str:
    """Check the value of a setting and return it in its stored form.

    Raises:
        UsageError: there is no setting with this name, or the value is not allowed.
    """
    setting = SETTINGS.get(name)
    if setting is None:
        raise UsageError(f"there is no setting {name!r}", hint=f"Settings: {', '.join(SETTINGS)}")
    if setting.kind is Kind.BOOLEAN and value.lower() not in ("true", "false"):
        raise UsageError(f"{name} must be true or false, not {value!r}")
    if setting.kind is Kind.SECONDS:
        _seconds(name, value)
    if setting.kind is Kind.FORMAT and value not in ("", "default", *FORMATS):
        raise UsageError(f"there is no output format {value!r}", hint=f"Formats: {', '.join(FORMATS)}")
    if setting.kind is Kind.URL:
        return complete_url(value)
    return value


def complete_url(text: str) -> str:
    """Return the complete URL of the API. A missing scheme and a missing path ``/client/api`` are added.

    Raises:
        UsageError: the text is not an HTTP or HTTPS URL.
    """
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{text!r} is not a URL of an API, such as https://cloud.example.org/client/api")
    path = parts.path if parts.path.strip("/") else "/client/api"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def connection(name: str, section: Mapping[str, str], shared: Mapping[str, str]) -> Connection:
    """Return the connection that a profile's section describes."""
    return Connection(
        profile=name,
        url=checked("url", _value(section, "url")),
        apikey=_value(section, "apikey"),
        secretkey=_value(section, "secretkey"),
        username=_value(section, "username"),
        password=_value(section, "password"),
        domain=_value(section, "domain"),
        verifycert=_flag({**shared, **section}, "verifycert"),
        requesttimeout=_seconds("requesttimeout", _value(shared, "requesttimeout")) or 120.0,
    )


def preferences(shared: Mapping[str, str]) -> Preferences:
    """Return the preferences that the settings for all profiles describe."""
    output = _value(shared, "output")
    return Preferences(
        # CloudMonkey's format "default" becomes None, which chooses the format automatically.
        output=None if output in ("", "default") else checked("output", output),
        asyncblock=_flag(shared, "asyncblock"),
        timeout=_seconds("timeout", _value(shared, "timeout")),
        autocomplete=_flag(shared, "autocomplete"),
        pager=_flag(shared, "pager"),
        prompt=_value(shared, "prompt"),
    )


def _value(values: Mapping[str, str], name: str) -> str:
    return values.get(name, "").strip() or SETTINGS[name].default


def _flag(values: Mapping[str, str], name: str) -> bool:
    return checked(name, _value(values, name)).lower() == "true"


def _seconds(name: str, value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"{name} must be a number of seconds, not {value!r}")
    return seconds or None
