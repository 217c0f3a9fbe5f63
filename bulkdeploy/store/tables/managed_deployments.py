"""Managed deployments, and rolling replacements of their VMs."""

from sqlalchemy import ARRAY, BigInteger, Boolean, Column, DateTime, ForeignKey, Index, Integer, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from bulkdeploy.store.tables.schema import created, identity, metadata, parent_id

managed_deployments = Table(
    "managed_deployments",
    metadata,
    Column("deployment_id", BigInteger, ForeignKey("deployments.id"), primary_key=True, autoincrement=False),
    Column("desired_count", Integer, nullable=False, comment="VMs that the deployment is to have"),
    Column("scale_in_policy", Text, nullable=False, comment="a ScaleInPolicy"),
    Column("command", Text, nullable=False, comment="the deploy call that made it"),
    Column("parameters", JSONB, nullable=False, comment="that call's parameters, by which more VMs are deployed"),
    Column(
        "next_check",
        DateTime(timezone=True),
        nullable=False,
        server_default=text("now()"),
        comment="when the sweeper next compares the VMs with the desired count",
    ),
    Column("failures", Integer, nullable=False, server_default=text("0"), comment="failed tries in a row"),
    Column("last_error", Text, comment="why the last try failed; NULL: it did not"),
    Column("autoheal", Boolean, nullable=False, server_default=text("false"), comment="heal broken VMs"),
    Column(
        "heal_after",
        Integer,
        nullable=False,
        server_default=text("300"),
        comment="seconds for which a VM is Stopped until it is broken",
    ),
    Column(
        "heal_at_once",
        Text,
        nullable=False,
        server_default=text("'1'"),
        comment="VMs that are healed at once: a number or a percentage",
    ),
    Column("heal_tries", Integer, nullable=False, server_default=text("0"), comment="tries that did not help"),
    Column("heal_broken", Integer, nullable=False, server_default=text("0"), comment="broken VMs at the last try"),
    Column(
        "next_heal",
        DateTime(timezone=True),
        nullable=False,
        server_default=text("now()"),
        comment="when the sweeper next looks for broken VMs",
    ),
    Column(
        "health_check", Text, comment="the HealthCheck that guests of available VMs answer; NULL: there is none"
    ),
    Column(
        "health_timeout",
        Integer,
        nullable=False,
        server_default=text("300"),
        comment="seconds after its start within which a guest must answer once",
    ),
)

guest_health = Table(
    "guest_health",
    metadata,
    Column("vm_id", BigInteger, primary_key=True, autoincrement=False),
    Column("checked", DateTime(timezone=True), nullable=False, comment="when the newest check began"),
    Column(
        "answered",
        DateTime(timezone=True),
        comment="when the newest check with an answer began; NULL: no check had one",
    ),
    Column(
        "silent_since", DateTime(timezone=True), comment="first check in a row without an answer; NULL: it answers"
    ),
    comment="the health of guests that were replaced in managed deployments with a health check",
)

replacements = Table(
    "replacements",
    metadata,
    identity(),
    parent_id("deployment_id", index=True),
    Column("method", Text, nullable=False, comment="a ReplaceMethod"),
    Column("state", Text, nullable=False, comment="a ReplacementState"),
    Column(
        "old_parameters", JSONB, nullable=False, comment="the recorded parameters before; rollback restores them"
    ),
    Column("new_parameters", JSONB, nullable=False, comment="the recorded parameters of replaced VMs"),
    Column("vm_count", Integer, nullable=False, comment="VMs that were to be replaced at the beginning"),
    Column("max_surge", Integer, nullable=False, comment="VMs beyond the desired number"),
    Column("max_unavailable", Integer, nullable=False, comment="VMs that may be unavailable"),
    Column("pause_at", ARRAY(Integer), nullable=False, comment="replaced VMs at which to pause, ascending"),
    Column("max_failures", Integer, nullable=False, comment="VMs that may fail"),
    Column("failures", Integer, nullable=False, server_default=text("0"), comment="VMs that failed"),
    Column("expunge", Boolean, nullable=False, comment="replaced VMs are expunged at once"),
    created(),
    Column("completed", DateTime(timezone=True), comment="NULL: it is open"),
    Index("uq_replacements_open", "deployment_id", unique=True, postgresql_where=text("completed IS NULL")),
)

replaced_vms = Table(
    "replaced_vms",
    metadata,
    Column("replacement_id", BigInteger, primary_key=True, autoincrement=False),
    Column("vm_id", BigInteger, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False, comment="Pending, Underway, Done, Failed or Counted"),
)
