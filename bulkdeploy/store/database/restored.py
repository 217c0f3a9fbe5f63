"""The repair of a database that was restored from a backup.

Numbers that may have been used after the backup are skipped.
"""

from sqlalchemy import Connection, text

LEAD = 10_000_000
"""More jobs, VMs, volumes and MAC addresses than are made between two backups."""

_SKIP = [
    text(f"SELECT setval({sequence}, nextval({sequence}) + :lead)")
    for sequence in (
        *(
            f"CAST(pg_get_serial_sequence('{table}', 'id') AS regclass)"
            for table in ("async_jobs", "virtual_machines", "volumes")
        ),
        "CAST('mac_address_numbers' AS regclass)",
    )
]


_RENEW = text("UPDATE async_jobs SET lease_fence = lease_fence + CAST(:lead AS bigint) * :leases WHERE status = 0")


def skip_numbers(connection: Connection, leases_per_job: int) -> None:
    """Skip the numbers that may have been used after the backup, and give unfinished jobs higher fences.

    Fences are made of job numbers, and hypervisors remember the highest fence: they would reject every call with a
    lower one. Guest names are made of VM numbers, and MAC addresses have their own numbers. This function may be
    repeated. ``leases_per_job`` is the distance between the fences of two consecutive jobs.
    """
    for statement in _SKIP:
        connection.execute(statement, {"lead": LEAD})
    connection.execute(_RENEW, {"lead": LEAD, "leases": leases_per_job})
