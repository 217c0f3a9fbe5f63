"""Failures that operators can correct, such as a wrong setting or an unreachable service."""

import psycopg
from sqlalchemy.exc import DBAPIError, OperationalError

from bulkdeploy.cli.failures import ApiRefused, ConnectionFailed
from bulkdeploy.cloudstack.client import CallRefused, NotAnswered
from bulkdeploy.domain.errors import BulkDeployError
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.options import DriverSettingError
from bulkdeploy.embedded.data_lock import DataDirectoryInUse
from bulkdeploy.embedded.processes import ServerFailed
from bulkdeploy.embedded.system_account import AccountUnavailable
from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.migrations.revisions import SchemaMismatch
from bulkdeploy.wiring.cipher import SecretKeyWrong
from bulkdeploy.wiring.settings import SettingMissing

EXPECTED = (
    AccountUnavailable,
    ApiRefused,
    BulkDeployError,
    CallRefused,
    ConnectionFailed,
    DataDirectoryInUse,
    DriverError,
    DriverSettingError,
    NotAnswered,
    OperationalError,
    OSError,
    SchemaMismatch,
    SecretKeyWrong,
    ServerFailed,
    SettingMissing,
    psycopg.OperationalError,
)


def is_for_the_operator(error: Exception) -> bool:
    """Return whether the error's text is sufficient for an operator, so that no traceback is needed.

    A closed output pipe (``| head``) is not a failure; click ends such a command silently.
    """
    return (isinstance(error, EXPECTED) or is_unreachable(error)) and not isinstance(error, BrokenPipeError)


def in_words(error: Exception) -> str:
    """Return the text of an error without its SQL statement."""
    return str(error.orig if isinstance(error, DBAPIError) else error).strip()
