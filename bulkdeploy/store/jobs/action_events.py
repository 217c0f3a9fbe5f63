"""Events of actions: Scheduled when a job is created, Started and Completed when a worker runs the job.

The Scheduled event has the uuid of the job. The later events refer to this uuid as their parent, without a query.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from bulkdeploy.domain.events import EventType
from bulkdeploy.store.database.arrays import RECORD_SEPARATOR, int_array

INFO, ERROR = "INFO", "ERROR"
SCHEDULED, STARTED, COMPLETED = "Scheduled", "Started", "Completed"


@dataclass(frozen=True, slots=True)
class ActionEvent:
    """An event about an action of a job, with the job as its parent and the job's user.

    Its owner is the VM's owner, or else the job's owner. Its subject is the volume that the job's params name, or
    else the job's VM or host.
    """

    job_id: int
    event_type: EventType
    state: str
    description: str
    level: str = INFO


_WRITE = text(
    "INSERT INTO events (uuid, event_type, level, state, description, account_id, user_id, resource_type,"
    "   resource_id, resource_uuid, parent_uuid)"
    " SELECT CASE :state WHEN 'Scheduled' THEN j.uuid ELSE gen_random_uuid() END, :type, :level, :state,"
    "   e.description, coalesce(v.account_id, j.account_id), j.user_id,"
    "   CASE WHEN j.params ? 'volume_uuid' THEN 'Volume' ELSE j.instance_type END,"
    "   coalesce(CAST(j.params ->> 'volume_id' AS bigint), j.instance_id),"
    "   coalesce(CAST(j.params ->> 'volume_uuid' AS uuid), j.instance_uuid),"
    "   CASE WHEN :state <> 'Scheduled' THEN j.uuid END"
    " FROM unnest(CAST(:jobs AS bigint[]), string_to_array(:descriptions, chr(30))) AS e(job_id, description)"
    " JOIN async_jobs j ON j.id = e.job_id LEFT JOIN virtual_machines v ON v.id = j.instance_id"
    "   AND j.instance_type = 'VirtualMachine' ORDER BY e.job_id"
)


def write_events(connection: Connection, events: Sequence[ActionEvent]) -> None:
    """Insert these events, with one statement for each combination of type, state and level."""
    sorts: dict[tuple[EventType, str, str], list[ActionEvent]] = {}
    for event in events:
        sorts.setdefault((event.event_type, event.state, event.level), []).append(event)
    for (event_type, state, level), alike in sorts.items():
        connection.execute(
            _WRITE,
            {
                "type": event_type.value,
                "state": state,
                "level": level,
                "jobs": int_array(event.job_id for event in alike),
                "descriptions": RECORD_SEPARATOR.join(
                    event.description.replace(RECORD_SEPARATOR, " ") for event in alike
                ),
            },
        )
