"""The metadata of all tables, and column definitions that many tables share.

Every entity that clients see has an internal ``id`` (short joins, narrow indexes) and a
``uuid`` (what goes over the wire). ``removed`` marks soft deletion, as CloudStack does: a
removed row still resolves by uuid.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    MetaData,
    SmallInteger,
    Text,
    Uuid,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def identity() -> Column[int]:
    """Return the column of the internal primary key."""
    return Column("id", BigInteger, Identity(always=False), primary_key=True)


def public_uuid() -> Column[object]:
    """Return the column of the id that clients see. It is unique, and the database generates missing values."""
    return Column("uuid", Uuid, nullable=False, unique=True, server_default=text("gen_random_uuid()"))


def created() -> Column[object]:
    """Return the column for the time when the row was written (database clock, with time zone)."""
    return Column("created", DateTime(timezone=True), nullable=False, server_default=text("now()"))


def removed() -> Column[object]:
    """Return the column for the time when the entity was deleted; NULL while it exists."""
    return Column("removed", DateTime(timezone=True))


def reference(name: str, target: str, *, nullable: bool = False, index: bool = False) -> Column[int]:
    """Return a foreign key to ``target`` (``table.column``)."""
    return Column(name, BigInteger, ForeignKey(target), nullable=nullable, index=index)


def parent_id(name: str, *, nullable: bool = False, index: bool = False) -> Column[int]:
    """Return a column with the id of another table's row, without a foreign key.

    It is for tables into which one bulk call inserts tens of thousands of rows, because a foreign key costs a
    look-up and a lock on the parent per row. The writer has read the parent in the same transaction, parents are
    only ever marked as removed, and ``bulkdeploy audit`` finds orphans.
    """
    return Column(name, BigInteger, nullable=nullable, index=index)


def name_column(column: str = "name", *, nullable: bool = False) -> Column[str]:
    """Return a column for a name or another short text."""
    return Column(column, Text, nullable=nullable)


def small_number(column: str, *, default: int = 0) -> Column[int]:
    """Return a column for a small enum that is stored as its number."""
    return Column(column, SmallInteger, nullable=False, server_default=text(str(default)))
