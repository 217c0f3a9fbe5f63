"""The usage of guests, hosts and storage pools, as hypervisors measured it last.

There are no foreign keys, because their checks would lock rows that jobs lock. Rows of deleted objects are deleted
by age.
"""

from sqlalchemy import BigInteger, Column, DateTime, Index, Integer, Table, text

from bulkdeploy.store.tables.schema import metadata

SEEN = "when this was measured"

guest_usage = Table(
    "guest_usage",
    metadata,
    Column("vm_id", BigInteger, primary_key=True, autoincrement=False),
    Column("seen", DateTime(timezone=True), nullable=False, server_default=text("now()"), comment=SEEN),
    Column("cpu_ns", BigInteger, nullable=False, comment="this and the other totals: since the guest was started"),
    Column("received_bytes", BigInteger, nullable=False),
    Column("sent_bytes", BigInteger, nullable=False),
    Column("read_bytes", BigInteger, nullable=False),
    Column("written_bytes", BigInteger, nullable=False),
    Column("reads", BigInteger, nullable=False),
    Column("writes", BigInteger, nullable=False),
    Column("memory_kib", BigInteger, nullable=False),
    Column("unused_kib", BigInteger, comment="NULL: the guest does not report it"),
    Column("cpu_share", Integer, comment="hundredths of a percent since the last measurement; NULL: there is none"),
    Column("received_kib", BigInteger, comment="this and the rest: since the last measurement"),
    Column("sent_kib", BigInteger),
    Column("read_kib", BigInteger),
    Column("written_kib", BigInteger),
    Column("read_requests", BigInteger),
    Column("write_requests", BigInteger),
    postgresql_with={"fillfactor": "50"},
)

guest_usage_samples = Table(
    "guest_usage_samples",
    metadata,
    Column("vm_id", BigInteger, primary_key=True, autoincrement=False),
    Column("seen", DateTime(timezone=True), primary_key=True, comment=SEEN),
    Column("memory_kib", BigInteger, nullable=False),
    Column("unused_kib", BigInteger),
    Column("cpu_share", Integer, comment="hundredths of a percent since the measurement before, as the rest"),
    Column("received_kib", BigInteger, nullable=False),
    Column("sent_kib", BigInteger, nullable=False),
    Column("read_kib", BigInteger, nullable=False),
    Column("written_kib", BigInteger, nullable=False),
    Column("read_requests", BigInteger, nullable=False),
    Column("write_requests", BigInteger, nullable=False),
    Index("ix_guest_usage_samples_seen", "seen", postgresql_using="brin"),
)

guest_usage_intervals = Table(
    "guest_usage_intervals",
    metadata,
    Column("vm_id", BigInteger, primary_key=True, autoincrement=False),
    Column("begun", DateTime(timezone=True), primary_key=True, comment="when the interval began"),
    Column("measurements", Integer, nullable=False, comment="measurements that the sums are made of"),
    Column("cpu_shares", BigInteger, nullable=False, comment="sum of hundredths of a percent"),
    Column("memory_kib", BigInteger, nullable=False, comment="this and the next: sum over all measurements"),
    Column("memory_used_kib", BigInteger, nullable=False),
    Column("received_kib", BigInteger, nullable=False, comment="this and the rest: in the interval"),
    Column("sent_kib", BigInteger, nullable=False),
    Column("read_kib", BigInteger, nullable=False),
    Column("written_kib", BigInteger, nullable=False),
    Index("ix_guest_usage_intervals_begun", "begun", postgresql_using="brin"),
    postgresql_with={"fillfactor": "80"},
)

host_usage = Table(
    "host_usage",
    metadata,
    Column("host_id", BigInteger, primary_key=True, autoincrement=False),
    Column("seen", DateTime(timezone=True), nullable=False, server_default=text("now()"), comment=SEEN),
    Column("busy_ns", BigInteger, nullable=False, comment="since the host was booted, over all cores"),
    Column("total_ns", BigInteger, nullable=False),
    Column("memory_used_kib", BigInteger, nullable=False),
    Column("cpu_share", Integer, comment="hundredths of a percent since the last measurement; NULL: there is none"),
    Column("received_kib", BigInteger, nullable=False, comment="of its guests, since the last measurement"),
    Column("sent_kib", BigInteger, nullable=False),
    postgresql_with={"fillfactor": "50"},
)

host_usage_intervals = Table(
    "host_usage_intervals",
    metadata,
    Column("host_id", BigInteger, primary_key=True, autoincrement=False),
    Column("interval_s", Integer, primary_key=True, autoincrement=False, comment="length of the interval, seconds"),
    Column("begun", DateTime(timezone=True), primary_key=True, comment="when the interval began"),
    Column("measurements", Integer, nullable=False, comment="measurements that the sums are made of"),
    Column("cpu_measurements", Integer, nullable=False, comment="those of them with a share of the cores"),
    Column("cpu_shares", BigInteger, nullable=False, comment="sum of hundredths of a percent"),
    Column("memory_used_kib", BigInteger, nullable=False, comment="sum over all measurements"),
    Column("received_kib", BigInteger, nullable=False, comment="what its guests received in the interval"),
    Column("sent_kib", BigInteger, nullable=False),
    Index("ix_host_usage_intervals_begun", "begun", postgresql_using="brin"),
    postgresql_with={"fillfactor": "80"},
)

pool_usage = Table(
    "pool_usage",
    metadata,
    Column("pool_id", BigInteger, primary_key=True, autoincrement=False),
    Column("seen", DateTime(timezone=True), nullable=False, server_default=text("now()"), comment=SEEN),
    Column("used_bytes", BigInteger, nullable=False),
    Column("total_bytes", BigInteger, comment="NULL: an earlier release measured it"),
)
