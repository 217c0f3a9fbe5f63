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
    """Return the current figures of the database and the message broker. Without the broker there are no queues."""
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
    """Return the numbers of jobs that ended per hour of the last day, and the reasons of failures."""
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
        description="Returns the health of the service: jobs by state and age, outbox, queues, VMs by state,"
        " failures, the last audit",
        handler=get_health,
        shape=Shape.OBJECT,
        response=Response(
            "health",
            (
                flag("redisup", "whether Redis answers"),
                number("workers", "workers that have jobs in their hands"),
                number("finished", "jobs that ended within the last hour"),
                number("failed", "those of them that failed"),
                objects(
                    "jobs",
                    "unfinished jobs",
                    (
                        text(
                            "state",
                            "queued, running, dropped (by a worker), waiting (for another try) or throttled",
                        ),
                        number("count", "how many"),
                        fraction("oldest", "age of the oldest in seconds"),
                    ),
                ),
                number("outbox", "messages not sent to Redis yet"),
                fraction("outboxoldest", "age of the oldest in seconds"),
                objects(
                    "queues",
                    "messages that wait for a worker",
                    (text("name", "the queue"), number("messages", "how many")),
                ),
                objects(
                    "virtualmachines",
                    "VMs that are not gone",
                    (text("state", "their state"), number("count", "how many")),
                ),
                objects(
                    "hosts",
                    "hosts that are not up and enabled",
                    (
                        text("zoneid", "their zone"),
                        text("state", "their state"),
                        text("resourcestate", "their resource state"),
                        number("count", "how many"),
                    ),
                    roles=ROOT_ADMIN_ONLY,
                ),
                objects(
                    "failures",
                    "the 10 most frequent reasons of the last hour's failed jobs, of the latest 1000",
                    (text("errortext", "why"), number("count", "how many jobs")),
                ),
                objects(
                    "drivererrors",
                    "driver calls that failed within the last hour; most were made good on other hosts",
                    (
                        text("hypervisor", "the hypervisor type"),
                        text("step", "what was to be done, such as boot"),
                        text(
                            "kind",
                            "transient (may succeed later), permanent, stale (another worker has the job) or defect"
                            " (of the driver)",
                        ),
                        number("count", "how many"),
                    ),
                ),
                moment("audited", "when bulkdeploy audit ended last; absent before it ran"),
                number("auditcompared", "things that it compared"),
                number("auditbreaches", "how many of these were not as promised"),
                objects(
                    "auditbroken",
                    "the promises that did not hold",
                    (
                        text("promise", "what should hold"),
                        number("breaches", "how often it did not"),
                        texts("first", "the first of these, in words"),
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
                    "the last 24 hours by the clock, the oldest first; the last one is not over",
                    (
                        moment("timestamp", "when the hour began"),
                        number("deployed", "VMs that were deployed"),
                        number("failed", "VMs whose deployment failed"),
                        number("finished", "jobs of all kinds that ended"),
                    ),
                ),
                objects(
                    "failures",
                    "the 10 most frequent reasons of failed jobs, of the latest 1000",
                    (text("errortext", "why"), number("count", "how many jobs")),
                ),
            ),
        ),
        roles=ROOT_ADMIN_ONLY,
    ),
)
