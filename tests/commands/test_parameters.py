"""No parameter of CloudStack is ignored silently: each is honoured, declared to be without effect, or refused."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bulkdeploy.cli.connection.catalogue import read_catalogue
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare.binding import Binder
from bulkdeploy.declare.discovery import discover
from bulkdeploy.declare.unsupported_parameters import HARMLESS, NOT_SUPPORTED
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.domain.errors import InvalidParameter
from tests.support.api.binding import Catalogue

COMMANDS = find_commands()
OURS = {
    "balanceZone",
    "calculateCapacity",
    "bulkCreateVirtualMachines",
    "bulkDeployVirtualMachine",
    "bulkDestroyVirtualMachine",
    "bulkExpungeVirtualMachine",
    "bulkMigrateVirtualMachine",
    "bulkRebootVirtualMachine",
    "bulkRecoverVirtualMachine",
    "bulkRestoreVirtualMachine",
    "bulkScaleVirtualMachine",
    "bulkStartVirtualMachine",
    "bulkStopVirtualMachine",
    "bulkUpdateVirtualMachine",
    "cancelBulkDeployment",
    "cancelBulkOperation",
    "configureSimulatorHAProviderState",  # of CloudStack's simulator, and not in its description
    "replaceBulkDeployment",
    "resumeBulkOperation",
    "updateBulkDeployment",
    "evacuateHost",
    "repairVirtualMachine",
    "getHealth",
    "getJobHistory",
    "getHostUsageHistory",
    "getVirtualMachineUsageHistory",
    "getZoneMap",
    "listBulkDeployments",
    "listBulkOperations",
    "listAllocations",
    "listSimulatorHAStateTransitions",
    "listStorageUnits",
    "migrateHost",
}
"""Commands that CloudStack does not have."""

BESIDES = {
    *((command, "allocpolicy") for command in ("addCluster", "createPod", "listClusters", "listPods")),
    *((command, "allocpolicy") for command in ("listClustersMetrics", "updateCluster", "updatePod")),
    ("deleteIso", "forced"),
    ("createConsoleEndpoint", "consoletype"),
    ("deployVirtualMachine", "dryrun"),
    ("deployVirtualMachine", "hostids"),
    ("deployVirtualMachine", "summary"),
    ("deployVirtualMachine", "customjobid"),  # of every job's call in CloudStack, and in none's description
    ("deployVirtualMachine", "planindex"),
    ("deployVirtualMachine", "templatevariant"),
    ("deployVirtualMachine", "forcetemplatevariant"),
    ("listAsyncJobs", "deploymentid"),
    ("listAsyncJobs", "hostid"),
    ("listVolumes", "attached"),
    ("listVolumesMetrics", "attached"),
    *(
        (command, "sortby")
        for command in ("listAsyncJobs", "listEvents", "listVirtualMachines", "listVirtualMachinesMetrics")
    ),
    *(
        (name, parameter)
        for name in ("startVirtualMachine", "migrateVirtualMachine", "prepareHostForMaintenance")
        for parameter in ("dryrun", "planindex")
    ),
    *(("createVMSchedule", name) for name in ("groupid", "deploymentid", "tags")),
    *(("listVMSchedule", name) for name in ("groupid", "deploymentid", "account", "domainid", "isrecursive")),
    *(("listVMSchedule", name) for name in ("listall", "projectid")),
    *(("listRolePermissions", name) for name in ("keyword", "page", "pagesize")),
}
"""Parameters that CloudStack does not have for these commands."""


def cloudstack_parameters() -> dict[str, set[str]]:
    """The parameters of each command, in lower case, as the file beside this one says."""
    text = (Path(__file__).parent / "cloudstack_parameters.txt").read_text()
    lines = [line.partition(":") for line in text.splitlines() if not line.startswith("#")]
    return {name: set(names.lower().split()) for name, _, names in lines}


THEIRS = cloudstack_parameters()
REFUSED = [(name, parameter) for name, command in sorted(COMMANDS.items()) for parameter in command.unsupported]


def test_every_parameter_of_cloudstack_is_declared_or_refused() -> None:
    """Whoever sends a parameter that CloudStack knows learns what becomes of it, from listApis or an error."""
    assert set(COMMANDS) == set(THEIRS) | OURS
    ignored = {}
    for name, theirs in THEIRS.items():
        known = {one.name.lower() for one in COMMANDS[name].parameters} | set(COMMANDS[name].unsupported)
        if theirs - known:
            ignored[name] = theirs - known
    assert ignored == {}


def test_nothing_is_declared_that_cloudstack_does_not_have() -> None:
    """What is ours alone is named here; everything else is CloudStack's, under its name."""
    own = {
        (name, one.name)
        for name, theirs in THEIRS.items()
        for one in COMMANDS[name].parameters
        if one.name.lower() not in theirs
    }
    assert own == BESIDES


def test_nothing_is_both_declared_and_refused() -> None:
    """A parameter is honoured or refused, under one name in lower case, with a reason in plain words."""
    for name, parameter in REFUSED:
        assert parameter == parameter.lower() not in {one.name.lower() for one in COMMANDS[name].parameters}
        assert re.fullmatch(r"[^.]{10,120}", COMMANDS[name].unsupported[parameter])


@pytest.mark.parametrize("name", sorted({name for name, _ in REFUSED}))
def test_a_refusal_names_the_parameter_and_why(name: str) -> None:
    """In any case and as a map, too; only what is empty or ``false`` asks for nothing, and is not refused."""
    binder = Binder(replace(COMMANDS[name], parameters=(), rules=()))
    for parameter, why in COMMANDS[name].unsupported.items():
        for sent in (parameter, parameter.upper(), f"{parameter}[0].key"):
            with pytest.raises(InvalidParameter, match=re.escape(why)) as refusal:
                binder.bind({sent: "x"}, RoleType.ADMIN, Catalogue())
            assert parameter in str(refusal.value)
        for value in ("", "False", *HARMLESS.get(parameter, ())):
            assert binder.bind({parameter: value, f"{parameter}[0].key": value}, RoleType.ADMIN, Catalogue()) == {}


def test_list_apis_describes_what_is_refused() -> None:
    """Forms of CloudStack's UI stay empty where listApis lacks a parameter that they name."""
    for entry in discover((replace(command, described=True) for command in COMMANDS.values()), RoleType.ADMIN):
        shown = {one["name"]: one for one in entry["params"]}
        assert THEIRS.get(entry["name"], set()) <= {name.lower() for name in shown}
        offered = {one.name for api in read_catalogue([entry]).by_name.values() for one in api.parameters}
        for parameter, why in COMMANDS[entry["name"]].unsupported.items():
            assert shown[parameter]["description"] == f"{NOT_SUPPORTED}{why}"
            assert parameter not in offered
