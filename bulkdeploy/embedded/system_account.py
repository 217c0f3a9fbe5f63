"""The account for PostgreSQL, which refuses to run as root, and the permissions that the account needs."""

import os
import pwd
import stat
import subprocess
from pathlib import Path

from bulkdeploy.embedded.processes import SystemAccount

ACCOUNT_NAME = "pgserver"


class AccountUnavailable(Exception):
    """The account that PostgreSQL needs if this process is root cannot be created."""


def server_account() -> SystemAccount | None:
    """Return the account for PostgreSQL if this process is root, otherwise None.

    A missing account is created.

    Raises:
        AccountUnavailable: the account does not exist and could not be created.
    """
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        entry = _make_account()
    return SystemAccount(entry.pw_uid, entry.pw_gid)


def _make_account() -> pwd.struct_passwd:
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", ACCOUNT_NAME]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - fixed words
        return pwd.getpwnam(ACCOUNT_NAME)
    except FileNotFoundError as error:
        raise AccountUnavailable(
            f"PostgreSQL does not run as root, and there is no useradd to create the account {ACCOUNT_NAME}; "
            "run as an ordinary user, or set BULKDEPLOY_DATABASE_URL"
        ) from error
    except (subprocess.CalledProcessError, KeyError) as error:
        if ACCOUNT_NAME in {entry.pw_name for entry in pwd.getpwall()}:  # another process created it meanwhile
            return pwd.getpwnam(ACCOUNT_NAME)
        raise AccountUnavailable(f"useradd could not create the account {ACCOUNT_NAME}: {error}") from error


def make_traversable(path: Path) -> None:
    """Allow other accounts to enter, but not to list, every directory above ``path``.

    Otherwise the server's account could not reach its data and programs below root's home directory.
    """
    for directory in path.resolve().parents:
        mode = directory.stat().st_mode
        if not mode & stat.S_IXOTH:
            directory.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def make_readable(folder: Path) -> None:
    """Allow other accounts to read ``folder`` and all files and directories in it."""
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        executable = path.is_dir() or mode & stat.S_IXUSR
        wanted = mode | stat.S_IROTH | (stat.S_IXOTH if executable else 0)
        if wanted != mode:
            path.chmod(wanted)
