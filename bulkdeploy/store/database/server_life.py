"""The check whether a PostgreSQL server is still the one whose transaction numbers are known.

A server that recovers, after a crash of its own or of one of its processes, may give numbers a second time that
were given before and left no trace in its log. It then forgets its statistics, and counts them anew from that
moment on; over a shutdown it keeps them. (Resetting them by hand begins a life for nothing, no more.)
"""

LIFE_BEGAN = "pg_stat_get_bgwriter_stat_reset_time()"
"""SQL: a time that is another one after a recovery, and on another server."""
