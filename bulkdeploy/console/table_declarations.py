"""The declarations of tables: their list commands, columns and filters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bulkdeploy.cli.deployments.jobs import has_succeeded, is_finished, result_of, virtual_machine_of
from bulkdeploy.console.calls import Row
from bulkdeploy.console.formats import seconds_between


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        kind: the display format of values. ``link`` is a link to the page of an object.
        shown: whether the column is shown by default.
        to: the page to which a link leads.
        by: the field of the row with the id for the link.
    """

    name: str
    kind: str = "text"
    shown: bool = True
    to: str = ""
    by: str = "id"


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of a table, which sets one parameter of the table's command.

    Attributes:
        words: the values to choose from. If empty, the value is a text, or an id from the list ``rows_of``.
        hidden: whether the filter can only be set by links, so that it has no field in the form.
    """

    name: str
    words: tuple[str, ...] = ()
    rows_of: str = ""
    hidden: bool = False


HIDDEN_VM_FILTERS = (
    *("hostid", "podid", "groupid", "affinitygroupid", "networkid", "templateid", "serviceofferingid"),
    *("securitygroupid", "projectid", "account", "domainid"),
)
"""Filters of the VM table that only addresses have: pages of other things lead to their VMs by them."""


def bulk_command(action: str) -> str:
    """Return the name of the bulk command that runs this command on many VMs."""
    return f"bulk{action[0].upper()}{action[1:]}"


def _same(*columns: str) -> dict[str, str]:
    return {column: column for column in columns}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the console: the command that lists its rows, and the columns and filters that it shows.

    Attributes:
        read: a function that converts a row of the response to the values of the columns.
        orders: the columns by which rows can be sorted, with the values of the command's parameter ``sortby``.
        actions: commands that can be called for each selected row, with its id.
        fixed: parameters of the list command that apply unless a filter sets them.
    """

    page: str
    command: str
    columns: tuple[Column, ...]
    filters: tuple[Filter, ...]
    orders: Mapping[str, str]
    read: Callable[[Row], Row] = dict
    actions: tuple[str, ...] = ()
    fixed: Mapping[str, object] = field(default_factory=lambda: {"listall": True})


def _job(row: Row) -> Row:
    """Return the row of a job with its state, its action and its VM as texts."""
    vm = virtual_machine_of(row)
    finished = is_finished(row)
    return {
        **row,
        "id": row.get("jobid"),
        "action": str(row.get("cmd", "")).rpartition(".")[2].removesuffix("ByAdmin").removesuffix("Cmd"),
        "state": "in progress" if not finished else "succeeded" if has_succeeded(row) else "failed",
        "seconds": seconds_between(row.get("created"), row.get("completed")),
        "virtualmachine": vm.get("name") or row.get("jobinstanceid"),
        "hostname": vm.get("hostname"),
        "reason": result_of(row).get("errortext") if finished and not has_succeeded(row) else None,
    }


TABLES: Mapping[str, Table] = MappingProxyType(
    {
        table.page: table
        for table in (
            Table(
                "deployments",
                "listBulkDeployments",
                (
                    Column("id", "link", to="deployment"),
                    Column("state", "state"),
                    Column("progress", "progress"),
                    Column("count", "number"),
                    Column("succeeded", "number"),
                    Column("failed", "number"),
                    Column("running", "number", shown=False),
                    Column("queued", "number", shown=False),
                    Column("skew", "number", shown=False),
                    Column("account"),
                    Column("project", shown=False),
                    Column("domain", shown=False),
                    Column("zonename"),
                    Column("planner", "words", shown=False),
                    Column("created", "moment"),
                    Column("completed", "moment", shown=False),
                ),
                (Filter("keyword"), Filter("zoneid", rows_of="listZones")),
                _same("count", "account", "zonename", "created"),
            ),
            Table(
                "virtual-machines",
                "listVirtualMachines",
                (
                    Column("name", "link", to="virtual-machine"),
                    Column("state", "state"),
                    Column("ipaddress"),
                    Column("hostname", "link", to="host", by="hostid"),
                    Column("account"),
                    Column("project", shown=False),
                    Column("domain", shown=False),
                    Column("zonename", shown=False),
                    Column("serviceofferingname"),
                    Column("cpunumber", "number", shown=False),
                    Column("memory", "mebibytes"),
                    Column("templatename"),
                    Column("group", shown=False),
                    Column("hypervisor", shown=False),
                    Column("instancename", shown=False),
                    Column("id", shown=False),
                    Column("created", "moment"),
                ),
                (
                    Filter("keyword"),
                    Filter(
                        "state",
                        (
                            "Running",
                            "Starting",
                            "Stopped",
                            "Stopping",
                            "Migrating",
                            "Destroyed",
                            "Error",
                            "Unknown",
                        ),
                    ),
                    Filter("zoneid", rows_of="listZones"),
                    Filter("clusterid", rows_of="listClusters"),
                    *(Filter(name, hidden=True) for name in HIDDEN_VM_FILTERS),
                ),
                _same(
                    *("name", "state", "ipaddress", "hostname", "account", "zonename", "serviceofferingname"),
                    *("cpunumber", "memory", "templatename", "hypervisor", "instancename", "created"),
                ),
                actions=(
                    "startVirtualMachine",
                    "stopVirtualMachine",
                    "rebootVirtualMachine",
                    "destroyVirtualMachine",
                ),
            ),
            Table(
                "jobs",
                "listAsyncJobs",
                (
                    Column("id", "link", to="job"),
                    Column("action"),
                    Column("state", "state"),
                    Column("virtualmachine", "link", to="virtual-machine", by="jobinstanceid"),
                    Column("hostname"),
                    Column("reason", "long"),
                    Column("account"),
                    Column("seconds", "number"),
                    Column("created", "moment"),
                    Column("completed", "moment", shown=False),
                ),
                (Filter("keyword"), Filter("deploymentid", hidden=True), Filter("resourceid", hidden=True)),
                {"action": "cmd", "state": "jobstatus"} | _same("account", "created", "completed"),
                read=_job,
            ),
            Table(
                "events",
                "listEvents",
                (
                    Column("created", "moment"),
                    Column("level", "state"),
                    Column("type"),
                    Column("state", "state"),
                    Column("description", "long"),
                    Column("username"),
                    Column("account"),
                    Column("domain", shown=False),
                    Column("id", shown=False),
                ),
                (
                    Filter("keyword"),
                    Filter("level", ("INFO", "WARN", "ERROR")),
                    Filter("state", ("Created", "Scheduled", "Started", "Completed")),
                    Filter("type"),
                    Filter("resourceid", hidden=True),
                    Filter("startid", hidden=True),
                ),
                _same("created", "level", "type", "state", "username", "account"),
            ),
        )
    }
)
