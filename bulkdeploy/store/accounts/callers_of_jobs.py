"""The lookup of polling callers and the jobs that they poll, combined for concurrent polls."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.store.accounts.callers import KEY_HOLDERS, KeyHolder, holders_of
from bulkdeploy.store.database.arrays import RECORD_SEPARATOR
from bulkdeploy.store.database.compiled_query import TwoQueries
from bulkdeploy.store.database.request_coalescing import find_coalesced
from bulkdeploy.store.jobs.async_jobs import BY_UUIDS, FoundJob, found_job

HOLDERS_AND_JOBS = TwoQueries(KEY_HOLDERS, BY_UUIDS)


def holder_and_job(connection: Connection, api_key: str, uuid: UUID) -> tuple[KeyHolder | None, FoundJob | None]:
    """Return the user of an API key and a job of any owner, read by one statement; either may be None.

    The caller must check that the key is valid and that the user may see the job.
    """
    found = find_coalesced(connection, _holders_and_jobs, (api_key, uuid))
    holder, row = (None, None) if found is None else found
    return holder, None if row is None else found_job(row)


def _holders_and_jobs(
    connection: Connection, wanted: Sequence[tuple[str, UUID]]
) -> Mapping[tuple[str, UUID], tuple[KeyHolder | None, Mapping[str, Any] | None]]:
    keys, uuids = {key for key, _ in wanted}, {str(uuid) for _, uuid in wanted}
    holding, jobs = HOLDERS_AND_JOBS.rows(
        connection, api_keys=RECORD_SEPARATOR.join(keys), uuids="{" + ",".join(uuids) + "}"
    )
    holders, by_uuid = holders_of(holding), {row["jobid"]: row for row in jobs}
    return {(key, uuid): (holders.get(key), by_uuid.get(uuid)) for key, uuid in wanted}
