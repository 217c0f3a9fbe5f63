"""Facts for getHealth that one process records and all processes read: failed driver calls, the last audit."""

from sqlalchemy import Boolean, Column, DateTime, Integer, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from bulkdeploy.store.tables.schema import metadata

driver_errors = Table(
    "driver_errors",
    metadata,
    Column("minute", DateTime(timezone=True), primary_key=True),
    Column("hypervisor", Text, primary_key=True),
    Column("step", Text, primary_key=True),
    Column("kind", Text, primary_key=True, comment="transient, permanent, stale or defect"),
    Column("errors", Integer, nullable=False),
    comment="failed driver calls of the last day, by minute",
)

last_audit = Table(
    "last_audit",
    metadata,
    Column("one", Boolean, primary_key=True, server_default=text("true"), comment="there is one row at most"),
    Column("ended", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("compared", Integer, nullable=False),
    Column("breaches", Integer, nullable=False),
    Column("broken", JSONB, nullable=False, comment="the broken promises: promise, breaches, the first of these"),
)
