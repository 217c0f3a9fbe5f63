"""The columns with encrypted secrets: secret keys of users, passwords, and secrets of storage pools."""

from collections.abc import Callable

from sqlalchemy import Connection, bindparam, select, update

from bulkdeploy.store.tables.accounts import api_keys
from bulkdeploy.store.tables.availability import bmcs
from bulkdeploy.store.tables.topology import storage_pools
from bulkdeploy.store.tables.virtual_machines import virtual_machines

COLUMNS = (
    api_keys.c.secret_key_encrypted,
    virtual_machines.c.password_encrypted,
    bmcs.c.password_encrypted,
    storage_pools.c.secret_encrypted,
)


def encrypt_anew(connection: Connection, anew: Callable[[bytes], bytes]) -> int:
    """Encrypt all stored secrets again with the function ``anew``, and return the number of secrets.

    A secret that another transaction replaces in the meantime keeps its newer value.
    """
    replaced = 0
    for column in COLUMNS:
        key = column.table.c.id
        rows = connection.execute(select(key, column).where(column.is_not(None))).all()
        if rows:
            connection.execute(
                update(column.table)
                .where(key == bindparam("row"), column == bindparam("old"))
                .values({column: bindparam("new")}),
                [{"row": row, "old": token, "new": anew(token)} for row, token in rows],
            )
        replaced += len(rows)
    return replaced
