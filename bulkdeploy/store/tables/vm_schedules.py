"""Schedules that start, stop and reboot virtual machines."""

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Index, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from bulkdeploy.store.tables.schema import created, identity, metadata, parent_id, public_uuid, removed

vm_schedules = Table(
    "vm_schedules",
    metadata,
    identity(),
    public_uuid(),
    parent_id("account_id", index=True),
    Column("vm_id", BigInteger, comment="the one VM that it acts on"),
    Column("group_id", BigInteger, comment="or the instance group"),
    Column("deployment_id", BigInteger, comment="or the bulk deployment"),
    Column("tags", JSONB, comment="or tags of the account's VMs"),
    Column("description", Text, nullable=False),
    Column("action", Text, nullable=False, comment="START, STOP, REBOOT, FORCE_STOP or FORCE_REBOOT"),
    Column("schedule", Text, nullable=False, comment="a cron expression of five fields"),
    Column("time_zone", Text, nullable=False),
    Column("start_date", DateTime(timezone=True), nullable=False),
    Column("end_date", DateTime(timezone=True)),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    Column("next_run", DateTime(timezone=True), comment="the next occurrence; NULL: there is none"),
    Column("last_run", DateTime(timezone=True), comment="the last occurrence that was handled"),
    created(),
    removed(),
    Index("ix_vm_schedules_vm_id", "vm_id", postgresql_where=text("vm_id IS NOT NULL")),
    Index("ix_vm_schedules_due", "next_run", postgresql_where=text("removed IS NULL AND enabled")),
)
