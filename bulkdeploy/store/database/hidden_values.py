"""The removal of row values from PostgreSQL's errors, because errors are logged and rows contain secrets."""

import psycopg


def hide_values(error: psycopg.Error) -> bool:
    """Reduce an error to its first line if its further lines show row values, and return whether it was changed.

    PostgreSQL shows row values in DETAIL and in the CONTEXT of COPY.
    """
    if error.diag.message_detail is None and error.diag.context is None:
        return False
    error.args = (error.diag.message_primary,)
    return True
