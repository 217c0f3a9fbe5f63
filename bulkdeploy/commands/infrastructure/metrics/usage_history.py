"""getHostUsageHistory: the usage of a host, a cluster or a zone within the last hour, day or week."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import ExactlyOne, string, uuid
from bulkdeploy.declare.response_fields import large_number, moment, number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.virtual_machines.usage import PERIODS, UsagePeriod
from bulkdeploy.store.infrastructure.metrics.usage_history import read_usage_history

SAMPLE = (
    moment("timestamp", "when the interval began"),
    number("hosts", "the number of hosts that were measured in the interval"),
    text("cpuused", "the CPU usage of the hosts, such as 3.5%; absent if it was not measured"),
    large_number("memoryusedkbs", "the used memory of the hosts, in KiB"),
    large_number("memorykbs", "the total memory of the hosts, in KiB"),
    large_number("networkkbsread", "the network traffic received by the guests in the interval, in KiB"),
    large_number("networkkbswrite", "the network traffic sent by the guests in the interval, in KiB"),
)


def get_usage_history(call: Call) -> Mapping[str, Any]:
    """Return the usage of hosts by interval."""
    period = UsagePeriod(call.arguments.get("period", UsagePeriod.DAY))
    length, interval_s = PERIODS[period]
    return {
        "period": period.value,
        "intervalseconds": interval_s,
        "samples": read_usage_history(call.connection, call.arguments, length, interval_s),
    }


COMMANDS: tuple[Command, ...] = (
    Command(
        name="getHostUsageHistory",
        description=(
            "Returns the resource usage of the hosts of a zone, cluster or host within the last hour, day or "
            "week, in intervals of five minutes or one hour"
        ),
        handler=get_usage_history,
        shape=Shape.OBJECT,
        response=Response(
            "usagehistory",
            (
                text("period", "the length of the period: hour, day or week"),
                number("intervalseconds", "the length of an interval in seconds"),
                objects("samples", "the intervals that have measurements, the oldest first", SAMPLE),
            ),
        ),
        roles=frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN}),
        parameters=(
            uuid("hostid", Entity.HOST, "the host"),
            uuid("clusterid", Entity.CLUSTER, "the cluster; the response contains the sums over its hosts"),
            uuid("zoneid", Entity.ZONE, "the zone; the response contains the sums over its hosts"),
            string(
                "period",
                "the length of the period up to now: hour, day (default) or week",
                choices=tuple(period.value for period in UsagePeriod),
            ),
        ),
        rules=(ExactlyOne(("hostid", "clusterid", "zoneid")),),
    ),
)
