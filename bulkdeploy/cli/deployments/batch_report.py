"""The common parts of reports about batches: spread over clusters, failures by reason, slow jobs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from bulkdeploy.cli.deployments.jobs import Failure, seconds_taken, virtual_machine_of
from bulkdeploy.cli.deployments.remedies import remedy
from bulkdeploy.cli.output.formats import duration, printable

INSTANCE_NAME = re.compile(r"\bi-\d+-\d+-\w+")
"""How reasons name a VM, of bulkdeploy as of CloudStack: ``i-2-7-VM``."""
ON_HOST = re.compile(r"\bon host (?P<host>[\w.-]+)")
ON_ANY_HOST = "on host <host>"
MOST_REASONS = 20
SLOWEST = 5
MOST_CLUSTERS = 200


@dataclass(slots=True)
class FailureGroup:
    """Failures with the same code and reason, on one host or many."""

    code: int
    reason: str
    help: str
    failures: list[Failure] = field(default_factory=list)
    hosts: dict[str, None] = field(default_factory=dict)

    def as_row(self) -> dict[str, Any]:
        """Return the group as a row of ``failure_table``."""
        names = list(self.hosts)
        where = f"host {names[0]}" if len(names) == 1 else f"{len(names)} hosts ({', '.join(names[:3])}, ...)"
        return {
            "failed": len(self.failures),
            "errorcode": self.code,
            "errortext": self.reason.replace(ON_ANY_HOST, f"on {where}"),
            "help": self.help,
            "jobid": self.failures[0].job_id,
        }


def grouped(failures: Iterable[Failure]) -> list[FailureGroup]:
    """Return failures grouped by reason, the most frequent reason first.

    Reasons that differ only in the name of a VM or host are grouped together.
    """
    groups: dict[tuple[int, str], FailureGroup] = {}
    for failure in failures:
        reason = INSTANCE_NAME.sub("<vm>", failure.reason.replace(failure.vm_id or "<vm>", "<vm>"))
        hosts = ON_HOST.findall(reason)
        reason = ON_HOST.sub(ON_ANY_HOST, reason)
        group = groups.setdefault(
            (failure.code, reason), FailureGroup(failure.code, reason, remedy(failure.code, reason))
        )
        group.failures.append(failure)
        group.hosts |= dict.fromkeys(hosts)
    return sorted(groups.values(), key=lambda group: -len(group.failures))


def slowest(jobs: Sequence[Mapping[str, Any]], most: int = SLOWEST) -> list[dict[str, Any]]:
    """Return a row for each of the ``most`` slowest jobs, with its duration in seconds, its VM and its host."""
    timed = [(taken, job) for job in jobs if (taken := seconds_taken(job)) is not None]
    timed.sort(key=lambda pair: -pair[0])
    return [
        {
            "seconds": taken,
            "jobid": str(job.get("jobid") or ""),
            "virtualmachine": str(virtual_machine_of(job).get("name") or job.get("jobinstanceid") or ""),
            "hostname": str(virtual_machine_of(job).get("hostname") or ""),
        }
        for taken, job in timed[:most]
    ]


def cluster_table(clusters: Sequence[Mapping[str, Any]], title: str) -> Table:
    """Return a table of the VMs per pod and cluster: before, added, after, and how many more VMs fit."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("pod", overflow="fold")
    table.add_column("cluster", overflow="fold")
    for name in ("before", "added", "after", "room left"):
        table.add_column(name, justify="right")
    for cluster in ordered(clusters)[:MOST_CLUSTERS]:
        added = number(cluster, "added")
        left = None if cluster.get("capacity") is None else number(cluster, "capacity") - added
        counts = [_shown(cluster.get("before")), str(added), _shown(cluster.get("after")), _shown(left)]
        style = "" if added else "dim"
        table.add_row(place(cluster, "pod"), place(cluster, "cluster"), *counts, style=style)
    if len(clusters) > MOST_CLUSTERS:
        table.caption = f"and {len(clusters) - MOST_CLUSTERS} more clusters (-o json has all)"
    return table


def pod_table(clusters: Sequence[Mapping[str, Any]]) -> Table | None:
    """Return a table with the VMs per pod.

    Returns None if each pod has one cluster, because the table would repeat the table of clusters.
    """
    pods: dict[str, dict[str, Any]] = {}
    for cluster in ordered(clusters):
        name = place(cluster, "pod").plain
        pod = pods.setdefault(name, {"name": name, "clusters": 0, "before": 0, "added": 0, "after": 0})
        for count in ("before", "added", "after"):
            unknown = pod[count] is None or cluster.get(count) is None
            pod[count] = None if unknown else pod[count] + number(cluster, count)
        pod["clusters"] += 1
    if all(pod["clusters"] == 1 for pod in pods.values()):
        return None
    table = Table(
        box=box.SIMPLE_HEAD, title="VMs per pod", title_justify="left", title_style="bold", pad_edge=False
    )
    table.add_column("pod", overflow="fold")
    for name in ("clusters", "before", "added", "after"):
        table.add_column(name, justify="right")
    for pod in pods.values():
        counts = (_shown(pod[name]) for name in ("clusters", "before", "added", "after"))
        table.add_row(Text(pod["name"]), *counts, style="" if pod["added"] else "dim")
    return table


def exclusion_table(excluded: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of excluded hosts by the rule that excluded them, with a remedy for each rule."""
    table = Table(
        box=box.SIMPLE_HEAD, title="Hosts left out", title_justify="left", title_style="bold", pad_edge=False
    )
    table.add_column("hosts", justify="right")
    table.add_column("why", overflow="fold")
    table.add_column("what would help", overflow="fold", style="dim")
    for entry in sorted(excluded, key=lambda entry: -number(entry, "hosts")):
        table.add_row(str(number(entry, "hosts")), *_why_and_remedy(entry))
    return table


def host_table(hosts: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of the requested hosts: how many VMs fit on each, or why none fits, with a remedy."""
    table = Table(box=box.SIMPLE_HEAD, title="Hosts", title_justify="left", title_style="bold", pad_edge=False)
    for name in ("host", "cluster"):
        table.add_column(name, overflow="fold")
    table.add_column("room for", justify="right")
    table.add_column("why not", overflow="fold")
    table.add_column("what would help", overflow="fold", style="dim")
    for host in hosts:
        places = (printable(str(host.get(name) or "-")) for name in ("hostname", "clustername"))
        table.add_row(*places, str(number(host, "capacity")), *_why_and_remedy(host))
    return table


def _why_and_remedy(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the explanation of a placement rule, else its code, and the remedy."""
    code = str(row.get("reason") or "").replace("_", " ")
    return printable(str(row.get("text") or code)), printable(str(row.get("remedy") or ""))


def failure_table(groups: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of failures by reason, with a remedy. The rows are created by ``FailureGroup.as_row``."""
    table = Table(box=box.SIMPLE_HEAD, title="Failed", title_justify="left", title_style="bold red", pad_edge=False)
    table.add_column("jobs", justify="right")
    table.add_column("why", overflow="fold")
    table.add_column("what would help", overflow="fold", style="dim")
    table.add_column("for example", overflow="fold")
    for group in groups[:MOST_REASONS]:
        why = printable(f"{group['errortext']} (code {group['errorcode']})")
        table.add_row(str(group["failed"]), why, str(group["help"]), str(group["jobid"]))
    if len(groups) > MOST_REASONS:
        table.caption = f"and {len(groups) - MOST_REASONS} more reasons (explain -o json has all)"
    return table


def slow_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of the slowest jobs."""
    table = Table(box=box.SIMPLE_HEAD, title="Slowest", title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("took", justify="right")
    for name in ("VM", "host", "job"):
        table.add_column(name, overflow="fold")
    for row in rows:
        texts = (printable(str(row[name])) for name in ("virtualmachine", "hostname", "jobid"))
        table.add_row(duration(row["seconds"]), *texts)
    return table


def vms(count: int) -> str:
    """Return a number of VMs as text, such as ``1 VM``, ``5 VMs`` or ``no VMs``."""
    return "1 VM" if count == 1 else f"{count or 'no'} VMs"


def ordered(clusters: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return clusters sorted by the names of their pods, then by their own names."""
    return sorted(clusters, key=lambda cluster: (place(cluster, "pod").plain, place(cluster, "cluster").plain))


def place(row: Mapping[str, Any], kind: str) -> Text:
    """Return the name of a row's pod or cluster (``kind``), or its id if it has no name, or a dash."""
    return Text(printable(str(row.get(f"{kind}name") or row.get(f"{kind}id") or "-")))


def number(row: Mapping[str, Any], name: str) -> int:
    """Return the count in a field of a row, or 0 if the row does not have the field."""
    return int(row.get(name) or 0)


def skew_of(clusters: Iterable[Mapping[str, Any]]) -> int:
    """Return the largest difference of VMs between clusters."""
    after = [number(cluster, "after") for cluster in clusters]
    return max(after) - min(after) if after else 0


def _shown(value: object) -> str:
    return "-" if value is None else str(value)
