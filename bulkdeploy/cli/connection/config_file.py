"""The configuration file: settings for all profiles, then a section for each profile.

The format is CloudMonkey's: INI, with settings for all profiles before the first section. The file is readable only
by its owner. It is replaced atomically, so that a crash leaves either the old or the new file.
"""

import configparser
import os
import sys
from collections.abc import Callable
from pathlib import Path

import platformdirs

from bulkdeploy.cli.connection.profiles import DEFAULT_PROFILE, SETTINGS, checked
from bulkdeploy.cli.failures import UsageError

SHARED = "core"
OWNER_ONLY_FILE, OWNER_ONLY_DIRECTORY = 0o600, 0o700
OTHERS = 0o077


def default_path() -> Path:
    """Return the path of the configuration file unless the command line or the environment names another."""
    return Path(platformdirs.user_config_dir("bulkmonkey")) / "config"


def cache_directory() -> Path:
    """Return the directory in which responses of listApis are cached."""
    return Path(platformdirs.user_cache_dir("bulkmonkey"))


def state_directory() -> Path:
    """Return the directory of the shell's history and of the ids of followed jobs."""
    return Path(platformdirs.user_state_dir("bulkmonkey"))


class ConfigFile:
    """The contents of the configuration file, with methods that change the file."""

    def __init__(self, path: Path, shared: dict[str, str], profiles: dict[str, dict[str, str]]) -> None:
        self.path, self.shared, self.profiles = path, shared, profiles

    @classmethod
    def read(cls, path: Path, warn: Callable[[str], None]) -> "ConfigFile":
        """Read and return the file at ``path``. A missing file is read as an empty file.

        If other users can access the file, their access is removed with a warning.

        Raises:
            UsageError: the file cannot be read, or is not INI.
        """
        parser = configparser.ConfigParser(interpolation=None, default_section="")
        try:
            if path.exists():
                _close_to_others(path, warn)
                parser.read_string(f"[{SHARED}]\n{path.read_text(encoding='utf-8')}", source=str(path))
        except (OSError, UnicodeDecodeError, configparser.Error) as error:
            raise UsageError(f"cannot read the configuration file {path}: {error}") from error
        sections = {name: dict(parser[name]) for name in parser.sections()}
        return cls(path, sections.pop(SHARED, {}), sections)

    @property
    def current(self) -> str:
        """The name of the selected profile."""
        return self.shared.get("profile", "").strip() or DEFAULT_PROFILE

    def profile(self, name: str) -> dict[str, str]:
        """Return the settings of a profile.

        Raises:
            UsageError: there is no profile with this name. (The default profile need not be in the file.)
        """
        if name not in self.profiles and name != DEFAULT_PROFILE:
            known = ", ".join(sorted({*self.profiles, DEFAULT_PROFILE}))
            raise UsageError(
                f"there is no profile {name!r}", hint=f"Profiles: {known}. 'set profile {name}' makes it"
            )
        return self.profiles.get(name, {})

    def set(self, name: str, value: str, profile: str) -> None:
        """Check and change a setting, and write the file.

        Settings of profiles are written to the section of ``profile``.

        Raises:
            UsageError: there is no setting with this name, or the value is not allowed.
        """
        value = checked(name, value)
        if any(character in value for character in "\r\n"):
            raise UsageError(f"the value of {name} must be one line")
        if name == "profile":
            if not value.strip() or value == SHARED or any(character in value for character in "[]"):
                raise UsageError(f"a profile cannot have the name {value!r}")
            self.profiles.setdefault(value, {})
        if SETTINGS[name].of_profile:
            self.profiles.setdefault(profile, {})[name] = value
        else:
            self.shared[name] = value
        self.write()

    def write(self) -> None:
        """Write all settings to the file. The file is replaced atomically and is readable only by its owner."""
        blocks = [_lines(self.shared)]
        blocks += [f"[{name}]\n{_lines(values)}" for name, values in self.profiles.items()]
        write_private(self.path, "\n".join(blocks))


def write_private(path: Path, content: str) -> None:
    """Replace a file atomically. The file and its new directory are only readable by their owner."""
    path.parent.mkdir(mode=OWNER_ONLY_DIRECTORY, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY_FILE)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _lines(values: dict[str, str]) -> str:
    return "".join(f"{name} = {value}\n" for name, value in values.items())


def _close_to_others(path: Path, warn: Callable[[str], None]) -> None:
    if sys.platform == "win32" or not path.stat().st_mode & OTHERS:
        return
    path.chmod(OWNER_ONLY_FILE)
    warn(f"{path} could be read by other users of this machine; it is now yours alone. Were its keys seen?")
