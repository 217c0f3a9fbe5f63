"""The removal of accounts and of everything that they own: most rows immediately, VMs by jobs.

All rows except VMs and volumes are marked as removed in the transaction of the call, so their removal cannot stop
half way. Removing a VM needs its hypervisor, so each VM gets a job that expunges it. If a race leaves a VM behind,
the sweeper finds the VM by its removed owner (``store.jobs.job_sweeping``).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import Connection, Row, func, insert, select, text

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.jobs import FAILED_RESULT_CODE, JobPhase
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.job_groups import JobGroup, cancel_jobs_never_leased
from bulkdeploy.store.jobs.job_results import SUCCESS_RESULT
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.tables.accounts import accounts
from bulkdeploy.store.tables.jobs import async_jobs

_REMOVE = """
DELETE FROM sessions USING users u WHERE u.id = user_id AND u.account_id = ANY(:accounts);
DELETE FROM api_keys USING users u WHERE u.id = user_id AND u.account_id = ANY(:accounts);
UPDATE users SET removed = now(), password_hash = NULL WHERE account_id = ANY(:accounts) AND removed IS NULL;
UPDATE accounts SET removed = now() WHERE id = ANY(:accounts) AND removed IS NULL;
UPDATE projects SET removed = now() WHERE account_id = ANY(:accounts) AND removed IS NULL;
DELETE FROM project_accounts WHERE account_id = ANY(:accounts);
UPDATE roles r SET removed = now() FROM projects p
    WHERE p.id = r.project_id AND p.account_id = ANY(:accounts) AND r.removed IS NULL;
DELETE FROM project_invitations i USING projects p
    WHERE p.id = i.project_id AND (i.account_id = ANY(:accounts) OR p.account_id = ANY(:accounts));
DELETE FROM security_group_rules USING security_groups g
    WHERE g.id = peer_group_id AND g.account_id = ANY(:accounts);
UPDATE security_groups SET removed = now() WHERE account_id = ANY(:accounts) AND removed IS NULL;
UPDATE affinity_groups SET removed = now() WHERE account_id = ANY(:accounts) AND removed IS NULL;
UPDATE ssh_key_pairs SET removed = now() WHERE account_id = ANY(:accounts) AND removed IS NULL;
UPDATE instance_groups SET removed = now() WHERE account_id = ANY(:accounts) AND removed IS NULL;
UPDATE user_data SET removed = now() WHERE account_id = ANY(:accounts) AND removed IS NULL;
DELETE FROM network_permissions p USING networks n
    WHERE n.id = p.network_id AND (p.account_id = ANY(:accounts) OR n.account_id = ANY(:accounts));
UPDATE networks SET removed = now() WHERE account_id = ANY(:accounts) AND removed IS NULL;
UPDATE templates SET removed = now() WHERE account_id = ANY(:accounts) AND removed IS NULL;
UPDATE vm_schedules SET removed = now() WHERE account_id = ANY(:accounts) AND removed IS NULL;
DELETE FROM dedicated_vlan_ranges WHERE account_id = ANY(:accounts);
DELETE FROM dedicated_resources WHERE account_id = ANY(:accounts);
DELETE FROM resource_limits WHERE owner_kind = 'account' AND owner_id = ANY(:accounts);
DELETE FROM configuration_values WHERE scope = 'Account' AND scope_id = ANY(:accounts);
DELETE FROM resource_details WHERE account_id = ANY(:accounts);
DELETE FROM resource_tags WHERE account_id = ANY(:accounts)
"""

_CANCEL_DEPLOYMENTS = text(
    "UPDATE deployments SET cancel_requested = coalesce(cancel_requested, now()) WHERE account_id = ANY(:accounts)"
    " RETURNING id"
)


def lock_accounts_of_domains(connection: Connection, domain_ids: Collection[int]) -> list[int]:
    """Lock the live accounts of these domains, including accounts of projects; return their ids in order."""
    query = select(accounts.c.id).where(id_in(accounts.c.domain_id, domain_ids), accounts.c.removed.is_(None))
    return list(connection.execute(query.order_by(accounts.c.id).with_for_update(key_share=True)).scalars())


def remove_accounts(connection: Connection, account_ids: Sequence[int]) -> None:
    """Mark accounts, their users and everything that they own as removed, except VMs and volumes.

    Sessions and API keys of the users are deleted, so the users cannot log in any more. Jobs of the accounts'
    deployments that no worker has started are cancelled.
    """
    for statement in _REMOVE.split(";"):
        connection.execute(text(statement), {"accounts": list(account_ids)})
    deployments = connection.execute(_CANCEL_DEPLOYMENTS, {"accounts": list(account_ids)}).scalars().all()
    cancel_jobs_never_leased(connection, JobGroup.DEPLOYMENT, deployments)


_PROJECTS = text(
    "SELECT m.account_id, array_agg(p.name ORDER BY p.name) AS names"
    " FROM projects p JOIN project_accounts m ON m.project_id = p.id"
    " WHERE m.account_id = ANY(CAST(:accounts AS bigint[])) AND m.role = 'Admin' AND p.removed IS NULL"
    "   AND NOT EXISTS (SELECT FROM project_accounts o WHERE o.project_id = p.id AND o.role = 'Admin'"
    "    AND o.account_id <> ALL(CAST(:accounts AS bigint[])))"
    " GROUP BY m.account_id"
)


def projects_only_managed_by(connection: Connection, account_ids: Sequence[int]) -> dict[int, list[str]]:
    """Return the names of live projects that only these accounts manage, by the id of the managing account."""
    rows = connection.execute(_PROJECTS, {"accounts": int_array(account_ids)})
    return {row.account_id: row.names for row in rows}


_VMS = text(
    "SELECT id, uuid FROM virtual_machines WHERE account_id = ANY(CAST(:accounts AS bigint[]))"
    " AND removed IS NULL AND state = ANY(:states) ORDER BY id FOR UPDATE"
)


def lock_vms_of_accounts(
    connection: Connection, account_ids: Sequence[int], states: Sequence[str]
) -> list[Row[Any]]:
    """Lock the VMs of these accounts in these states, and return their rows.

    The caller creates jobs for the VMs.
    """
    return list(connection.execute(_VMS, {"accounts": int_array(account_ids), "states": list(states)}))


def insert_removal_job(
    connection: Connection, caller: Caller, cmd: str, instance: Instance, account_ids: Sequence[int]
) -> UUID:
    """Insert a job that represents the removal of accounts, and return its uuid.

    No worker runs this job. ``end_removal_jobs`` ends it when the VMs of these accounts are deleted.
    """
    return _insert_waiting_job(connection, caller, cmd, instance, {"accounts": list(account_ids)})


def insert_stopping_job(
    connection: Connection, caller: Caller, cmd: str, instance: Instance, stop_jobs: Sequence[str], result: str
) -> UUID:
    """Insert a job that represents a call which created ``stop_jobs``, and return its uuid.

    No worker runs this job. ``end_removal_jobs`` ends it with ``result`` when the jobs with the uuids
    ``stop_jobs`` have ended, whether they succeeded or not.
    """
    waits = {"stop_jobs": list(stop_jobs), "result": result}
    return _insert_waiting_job(connection, caller, cmd, instance, waits)


def _insert_waiting_job(
    connection: Connection, caller: Caller, cmd: str, instance: Instance, params: Mapping[str, Any]
) -> UUID:
    made = insert(async_jobs).values(
        kind=cmd,
        cmd=cmd,
        account_id=caller.owner.account_id,
        user_id=caller.user_id,
        instance_type=instance.type,
        instance_id=instance.id,
        instance_uuid=instance.uuid,
        phase=JobPhase.WAITING,
        # One attempt, so that the sweeper's passes for jobs that never began ignore the job.
        attempts=1,
        params=params,
        created=func.now(),
    )
    uuid: UUID = connection.execute(made.returning(async_jobs.c.uuid)).scalar_one()
    return uuid


_END = text(
    "WITH waiting AS (SELECT j.id, j.created < now() - make_interval(mins => :minutes) AS late,"
    "   EXISTS (SELECT FROM virtual_machines v WHERE v.removed IS NULL AND v.account_id IN"
    "     (SELECT CAST(jsonb_array_elements_text(j.params -> 'accounts') AS bigint)))"
    "   OR EXISTS (SELECT FROM async_jobs s WHERE s.status = 0 AND s.uuid IN"
    "     (SELECT CAST(jsonb_array_elements_text(j.params -> 'stop_jobs') AS uuid))) AS held"
    "   FROM async_jobs j WHERE j.status = 0 AND j.phase = 'waiting'"
    "     AND (j.params -> 'accounts' IS NOT NULL OR j.params -> 'stop_jobs' IS NOT NULL)"
    "   ORDER BY j.id FOR UPDATE OF j SKIP LOCKED)"
    " UPDATE async_jobs j SET status = CASE WHEN held THEN 2 ELSE 1 END, phase = 'done', completed = now(),"
    "   result_code = CASE WHEN held THEN :failed ELSE 0 END,"
    "   result = CASE WHEN NOT held THEN coalesce(j.params ->> 'result', :success)"
    "     WHEN j.params -> 'accounts' IS NULL THEN :not_stopped ELSE :failure END"
    " FROM waiting w WHERE j.id = w.id AND (late OR NOT held)"
)
_LATE = {
    "errorcode": FAILED_RESULT_CODE,
    "errortext": "The account is deleted, but some of its virtual machines are not removed from their hosts yet; "
    "that is tried until it succeeds",
}
_NOT_STOPPED = {
    "errorcode": FAILED_RESULT_CODE,
    "errortext": "Some virtual machines are not stopped yet; their jobs continue",
}


def end_removal_jobs(connection: Connection, *, minutes: int) -> int:
    """End the jobs of calls that removed accounts or stopped the VMs of accounts, and return their number.

    The job of a removal succeeds when no VM is left, and the job of a call that stops VMs when their jobs have
    ended. A job fails if this takes longer than ``minutes``.
    """
    values = {
        "minutes": minutes,
        "failed": FAILED_RESULT_CODE,
        "failure": orjson.dumps(_LATE).decode(),
        "not_stopped": orjson.dumps(_NOT_STOPPED).decode(),
        "success": SUCCESS_RESULT,
    }
    return connection.execute(_END, values).rowcount
