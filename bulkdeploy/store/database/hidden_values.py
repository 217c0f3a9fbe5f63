"""The removal of row values from PostgreSQL's errors, because errors are logged and rows contain secrets."""

import psycopg


def hide_values(error: psycopg.Error) -> bool:
    """Leave the first line only of an error that shows values (DETAIL, and CONTEXT of COPY); whether it did."""
    if error.diag.message_detail is None and error.diag.context is None:
        return False
    error.args = (error.diag.message_primary,)
    return True
