"""The check whether a PostgreSQL server has recovered from a crash since its transaction ids were read.

After a crash of the server or of one of its processes, a server may assign transaction ids again that were assigned
before the crash and left no trace in its log. A recovery resets the server's statistics, and a normal shutdown does
not. Therefore the time of the last reset identifies the period without a crash. A manual reset of the statistics
only causes an unnecessary new period.
"""

LIFE_BEGAN = "pg_stat_get_bgwriter_stat_reset_time()"
"""SQL: a time that is another one after a recovery, and on another server."""
