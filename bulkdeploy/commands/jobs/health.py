"""getHealth: the state of the service as a whole, for callers that do not read its metrics."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.response_fields import flag, fraction, moment, number, objects, text, texts
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.provisioning.kinds.virtual_machines.deploy_virtual_machine import DEPLOY
from bulkdeploy.queue.job_queue import QueueUnavailable
from bulkdeploy.store.auditing.audit import read_last_audit
from bulkdeploy.store.jobs.driver_errors import recent_driver_errors
from bulkdeploy.store.jobs.state_figures import (
    hosts_by_state,
    job_history,
    recent_jobs,
    unfinished_jobs,
    unsent_messages,
    vms_by_state,
)


def get_health(call: Call) -> Mapping[str, Any]:
    """Return the health of the service: figures from the database, and the lengths of the broker's queues.

    If the message broker does not answer, ``redisup`` is false and no queues are returned.
    """
    try:
        queues = call.system.job_queue.waiting()
    except QueueUnavailable:
        queues = {}
    outbox, recent = unsent_messages(call.connection), recent_jobs(call.connection)
    return {
        "redisup": bool(queues),
        "workers": recent.workers,
        "finished": recent.finished,
        "failed": recent.failed,
        "jobs": [
            {"state": state, "count": backlog.count, "oldest": backlog.oldest_s}
            for state, backlog in unfinished_jobs(call.connection).items()
        ],
        "outbox": outbox.count,
        "outboxoldest": outbox.oldest_s,
        "queues": [{"name": queue, "messages": messages} for queue, messages in queues.items()],
        "virtualmachines": [{"state": state, "count": vms} for state, vms in vms_by_state(call.connection).items()],
        "hosts": [
            {"zoneid": zone, "state": state, "resourcestate": resource_state, "count": count}
            for zone, state, resource_state, count in hosts_by_state(call.connection)
        ],
        "failures": [{"errortext": reason, "count": count} for reason, count in recent.failures],
        "drivererrors": [
            {"hypervisor": one.hypervisor, "step": one.step, "kind": one.kind, "count": count}
            for one, count in recent_driver_errors(call.connection)
        ],
        **_last_audit(call),
    }


def get_job_history(call: Call) -> Mapping[str, Any]:
    """Return how many jobs ended in each hour of the last day, and the most frequent reasons of failures."""
    found = job_history(call.connection, DEPLOY.name)
    return {
        "hours": [
            {"timestamp": begun, "deployed": deployed, "failed": failed, "finished": finished}
            for begun, deployed, failed, finished in found.hours
        ],
        "failures": [{"errortext": reason, "count": count} for reason, count in found.failures],
    }


def _last_audit(call: Call) -> Mapping[str, Any]:
    found = read_last_audit(call.connection)
    if found is None:
        return {}
    return {
        "audited": found.ended,
        "auditcompared": found.compared,
        "auditbreaches": found.breaches,
        "auditbroken": found.broken,
    }


COMMANDS: tuple[Command, ...] = (
    Command(
        name="getHealth",
        description=(
            "Returns the health of the service: jobs by state and age, unsent messages, queues, VMs by state, "
            "failures and the result of the last audit"
        ),
        handler=get_health,
        shape=Shape.OBJECT,
        response=Response(
            "health",
            (
                flag("redisup", "whether Redis answers"),
                number("workers", "the number of workers that run jobs at present"),
                number("finished", "the number of jobs that ended within the last hour"),
                number("failed", "the number of jobs that failed within the last hour"),
                objects(
                    "jobs",
                    "the unfinished jobs, grouped by state",
                    (
                        text(
                            "state",
                            "the state of the jobs: queued, running, dropped (their worker stopped), waiting "
                            "(for a retry) or throttled",
                        ),
                        number("count", "the number of objects in the group"),
                        fraction("oldest", "the age of the oldest object in the group, in seconds"),
                    ),
                ),
                number("outbox", "the messages that were not yet sent to Redis"),
                fraction("outboxoldest", "the age of the oldest object in the group, in seconds"),
                objects(
                    "queues",
                    "the messages that wait for a worker, by queue",
                    (
                        text("name", "the name of the queue"),
                        number("messages", "the number of messages in the queue"),
                    ),
                ),
                objects(
                    "virtualmachines",
                    "the VMs that are not expunged, grouped by state",
                    (text("state", "the state of the VMs"), number("count", "the number of objects in the group")),
                ),
                objects(
                    "hosts",
                    "the hosts that are not up and enabled, grouped by zone and state",
                    (
                        text("zoneid", "the zone of the hosts"),
                        text("state", "the state of the hosts"),
                        text("resourcestate", "the resource state of the hosts"),
                        number("count", "the number of objects in the group"),
                    ),
                    roles=ROOT_ADMIN_ONLY,
                ),
                objects(
                    "failures",
                    "the 10 most frequent reasons why jobs failed within the last hour, counted over the "
                    "latest 1000 failed jobs",
                    (text("errortext", "the error message"), number("count", "the number of jobs")),
                ),
                objects(
                    "drivererrors",
                    "the driver calls that failed within the last hour; most of them succeeded on a retry or "
                    "on another host",
                    (
                        text("hypervisor", "the hypervisor type"),
                        text("step", "the step that failed, such as boot"),
                        text(
                            "kind",
                            "the kind of error: transient (a retry may succeed), permanent, stale (another "
                            "worker has taken over the job) or defect (of the driver)",
                        ),
                        number("count", "the number of objects in the group"),
                    ),
                ),
                moment("audited", "when the last run of bulkdeploy audit ended; absent before the first run"),
                number("auditcompared", "the number of comparisons of the last audit"),
                number("auditbreaches", "the number of comparisons that found a violation"),
                objects(
                    "auditbroken",
                    "the guarantees that the last audit found violated",
                    (
                        text("promise", "the guarantee"),
                        number("breaches", "the number of violations"),
                        texts("first", "a description of the first violation"),
                    ),
                ),
            ),
        ),
        roles=ROOT_ADMIN_ONLY,
    ),
    Command(
        name="getJobHistory",
        description="Returns how many VMs were deployed in each hour of the last day, and why jobs failed",
        handler=get_job_history,
        shape=Shape.OBJECT,
        response=Response(
            "jobhistory",
            (
                objects(
                    "hours",
                    "the last 24 clock hours, the oldest first; the last entry is the current hour",
                    (
                        moment("timestamp", "when the hour began"),
                        number("deployed", "the number of VMs that were deployed in the hour"),
                        number("failed", "the number of VMs whose deployment failed in the hour"),
                        number("finished", "the number of jobs of all kinds that ended in the hour"),
                    ),
                ),
                objects(
                    "failures",
                    "the 10 most frequent reasons why jobs failed, counted over the latest 1000 failed jobs",
                    (text("errortext", "the error message"), number("count", "the number of jobs")),
                ),
            ),
        ),
        roles=ROOT_ADMIN_ONLY,
    ),
)
