"""The promises, held against the journal of the clients, once everything is quiet again."""

import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.provisioning.kinds.virtual_machines.deploy_virtual_machine import DEPLOY
from bulkdeploy.provisioning.kinds.virtual_machines.expunge_virtual_machine import EXPUNGE
from bulkdeploy.services.auditing.audit import audit
from tests.chaos.journal import BulkCall, Journal
from tests.chaos.load import make, saw
from tests.chaos.system import System
from tests.support.zones.zone_queries import Zone

REPEATED_CALLS = 200
POLLED_JOBS = 500
KINDS = {
    "destroyVirtualMachine": "destroy_virtual_machine",
    "stopVirtualMachine": "stop_virtual_machine",
    "startVirtualMachine": "start_virtual_machine",
    "migrateVirtualMachine": "migrate_virtual_machine",
    "repairVirtualMachine": "repair_virtual_machine",
    "rebootVirtualMachine": "reboot_virtual_machine",
    "restoreVirtualMachine": "restore_virtual_machine",
}
"""Commands whose calls make one job each, and the job's kind."""


def repeat_calls(system: System, journal: Journal, dice: Random) -> Iterator[str]:
    """Calls whose connection broke are made again: the same token gives the same jobs."""
    repeatable = [call for call in journal.bulk_calls if call.may_be_repeated]
    for call in [call for call in repeatable if call.is_open]:
        make(dice.choice(system.clients), journal, call)
    broken = [call for call in repeatable if call.jobs is not None and call.broken]
    others = [call for call in repeatable if call.jobs is not None and not call.broken]
    for call in broken + dice.sample(others, min(REPEATED_CALLS, len(others))):
        again = BulkCall(call.command, call.prefix, call.count, call.parameters)
        make(dice.choice(system.clients), journal, again)
        if again.jobs != call.jobs:
            yield f"call {call.prefix}, made again with its token: {again.refusal or 'other jobs'}"


def check(system: System, journal: Journal, dice: Random) -> Iterator[str]:
    """Every breach there is."""
    zone = Zone(system.engine)
    yield from _check_jobs(system, zone, journal, dice)
    yield from _check_deploy_calls(zone, journal)
    yield from _check_other_calls(zone, journal)
    yield from _audit(system, zone)


def _check_jobs(system: System, zone: Zone, journal: Journal, dice: Random) -> Iterator[str]:
    """Every answered job has one end, and keeps it."""
    ends = _ends(zone)
    answered = journal.all_jobs()
    for job, times in Counter(answered).items():
        if times > 1:
            yield f"job {job} was answered to {times} calls"
        if job not in ends:
            yield f"job {job} was answered and is not there"
        elif ends[job][0] == 0:
            yield f"job {job} did not end: {ends[job]}"
    for job in [*journal.first_ends, *dice.sample(answered, min(POLLED_JOBS, len(answered)))]:
        answer = dice.choice(system.clients).get("queryAsyncJobResult", jobid=job)
        if answer.status != 200:
            yield f"job {job} cannot be queried: {answer.text}"
        else:
            saw(journal, job, answer)
    yield from journal.changed_ends
    if _ends(zone) != ends:
        yield "results of jobs changed after everything was quiet"


def _ends(zone: Zone) -> dict[str, tuple[Any, ...]]:
    rows = zone.rows("SELECT uuid, status, result_code, result, completed FROM async_jobs")
    return {str(row.uuid): (row.status, row.result_code, row.result, row.completed) for row in rows}


def _check_deploy_calls(zone: Zone, journal: Journal) -> Iterator[str]:
    """A refused call made nothing; one whose connection broke made everything or nothing."""
    rows = zone.rows(
        "SELECT regexp_replace(name, '-[0-9]+(-[0-9a-f]{8})?$', '') AS prefix, name, count(*) OVER"
        " (PARTITION BY regexp_replace(name, '-[0-9]+(-[0-9a-f]{8})?$', '')) AS vms FROM virtual_machines"
    )
    by_prefix = {row.prefix: row.vms for row in rows}
    names = Counter(row.name for row in rows)
    for call in journal.bulk_calls:
        single = call.command == "deployVirtualMachine"
        made = names[call.prefix] if single else by_prefix.get(call.prefix, 0)
        if call.jobs is not None:
            allowed = {call.count}
        elif call.refusal is not None:
            allowed = {0}
        else:
            allowed = {0, call.count}
        if made not in allowed or (call.jobs is not None and len(call.jobs) != call.count):
            what = call.refusal or ("answered" if call.jobs else "no answer")
            yield f"{call.command} of {call.count} ({call.prefix}, {what}, broken {call.broken}) made {made} VMs"


def _check_other_calls(zone: Zone, journal: Journal) -> Iterator[str]:
    """As many jobs as were answered, and at most one more for each answer that did not arrive."""
    rows = zone.rows(
        "SELECT instance_uuid, kind, count(*) AS jobs FROM async_jobs"
        " WHERE cmd <> :expunge AND request_id IS NOT NULL AND parent_id IS NULL GROUP BY 1, 2",
        expunge=EXPUNGE.command_class,
    )
    made = {(str(row.instance_uuid), row.kind): row.jobs for row in rows if row.kind != DEPLOY.name}
    for (subject, command), requested in journal.requested.items():
        if command in KINDS:
            jobs = made.get((subject, KINDS[command]), 0)
            answered, broken = requested.answered, requested.broken
            if not answered <= jobs <= answered + broken:
                yield f"{command} of {subject}: {answered} answered, {broken} broken, {jobs} jobs"
    cancelled = {
        str(row.uuid) for row in zone.rows("SELECT uuid FROM deployments WHERE cancel_requested IS NOT NULL")
    }
    requested_for = {
        subject: requested
        for (subject, kind), requested in journal.requested.items()
        if kind == "cancelBulkDeployment"
    }
    for subject, requested in requested_for.items():
        if requested.answered and subject not in cancelled:
            yield f"deployment {subject} is not cancelled, although that was answered"
    for subject in cancelled:
        if not (requested_for[subject].answered or requested_for[subject].broken):
            yield f"deployment {subject} is cancelled, although that was refused"


def _audit(system: System, zone: Zone) -> Iterator[str]:
    """The accounting, and the hypervisors."""
    driver = SimulatorDriver(system.simulator_url)
    try:
        for finding in audit(system.engine, [driver]):
            yield from (f"audit, {finding.name}: {breach}" for breach in finding.breaches)
        live = {row.uuid for row in zone.rows("SELECT uuid FROM volumes WHERE removed IS NULL")}
        yield from (
            f"volume {uuid} is on its pool and nobody's" for uuid, _, _ in driver.list_volumes() if uuid not in live
        )
    finally:
        driver.close()


def failures(zone: Zone) -> Counter[str]:
    """Why deployments failed, without what differs from one to the next."""
    reasons: Counter[str] = Counter()
    for row in zone.rows("SELECT result FROM async_jobs WHERE status = 2 AND kind = 'deploy_virtual_machine'"):
        text = str(json.loads(row.result).get("errortext", ""))
        words = text.partition(":")[2].split()
        reasons[" ".join(word for word in words[:12] if not any(c.isdigit() for c in word))] += 1
    return reasons
