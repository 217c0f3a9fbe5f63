"""VMs as JSON that the database builds from the columns of ``virtual_machine_rows`` (ADR 59)."""

from collections.abc import Sequence
from functools import lru_cache, partial

from sqlalchemy import Connection

from bulkdeploy.declare.responses import Field
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.database.json_objects import JsonQuery, Part
from bulkdeploy.store.resource_tags import USER_VM, tags_part
from bulkdeploy.store.virtual_machines.virtual_machine_details import (
    EVERYTHING,
    VM_IDS,
    Detail,
    details_query,
    user_data_column,
    user_data_details_column,
)
from bulkdeploy.store.virtual_machines.virtual_machine_lists import (
    affinity_groups_part,
    nics_part,
    running_jobs_part,
    security_groups_part,
)

QUERIES = 64
"""Built queries that are kept: half a MiB each, one for each set of ``details`` that callers choose, and role."""


def virtual_machine_texts(
    connection: Connection,
    fields: tuple[Field, ...],
    vm_ids: Sequence[int],
    *,
    details: frozenset[Detail],
    with_user_data: bool,
) -> dict[int, str]:
    """Return VMs as JSON texts with these fields, by internal id.

    The fields have the same values as in ``virtual_machine_rows`` with ``with_jobs``.
    """
    wanted = EVERYTHING if Detail.ALL in details else details
    return _query(fields, wanted, with_user_data).texts(connection, vm_ids=int_array(vm_ids))


@lru_cache(QUERIES)
def _query(fields: tuple[Field, ...], details: frozenset[Detail], with_user_data: bool) -> JsonQuery:
    query = details_query(details)
    if with_user_data:
        query = query.add_columns(user_data_column(), user_data_details_column())
    parts: dict[str, Part] = {
        "tags": partial(tags_part, resource_type=USER_VM, ids=VM_IDS),
        "jobid": running_jobs_part,
        "jobstatus": running_jobs_part,
    }
    if Detail.NICS in details:
        parts |= {"nic": nics_part, "ipaddress": nics_part}
    if Detail.SECURITY_GROUPS in details:
        parts["securitygroup"] = security_groups_part
    if Detail.AFFINITY_GROUPS in details:
        parts["affinitygroup"] = affinity_groups_part
    return JsonQuery(fields, query, parts)
