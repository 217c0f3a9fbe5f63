"""The repair of a database that was put back to an earlier moment: numbers that are given out only once."""

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
    """Skip numbers that may have been given out since; unfinished jobs get fences as of later ones.

    Fences are made of jobs' numbers, and hypervisors remember them: with lower ones than they saw, nothing could be
    done to a guest. Names of guests are made of VMs' numbers, and MAC addresses have theirs. Safe to repeat.

    ``leases_per_job``: by how much the fences of one job and the next lie apart.
    """
    for statement in _SKIP:
        connection.execute(statement, {"lead": LEAD})
    connection.execute(_RENEW, {"lead": LEAD, "leases": leases_per_job})
