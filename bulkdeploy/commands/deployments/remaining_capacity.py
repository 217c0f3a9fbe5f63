"""calculateCapacity: the number of further VMs that a bulk call could deploy.

CloudStack does not have this command; Ganeti's hspace is similar.
"""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.deployments.deploy_calls import deploy_request
from bulkdeploy.commands.parameters.deploy_parameters import NOT_OF_MANY, OF_ANY_VM, RULES, UNSUPPORTED
from bulkdeploy.commands.placement_fields import EXCLUDED, REASON_FIELDS
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import Exclusive, Needs, boolean
from bulkdeploy.declare.response_fields import number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.errors import OwnerDisabled, PermissionDenied, ResourceUnavailable
from bulkdeploy.services.deployments.remaining_capacity import calculate_capacity

OF_A_DEPLOYMENT = frozenset({"startvm", "dryrun", "planindex", "hostids"})
"""Deploy parameters that calculateCapacity does not have, because nothing is deployed."""

RULES_OF_A_DEPLOYMENT = tuple(rule for rule in RULES if isinstance(rule, Needs) and rule.other in OF_A_DEPLOYMENT)

USAGE = (
    number("hosts", "the number of hosts that are up and enabled; all other figures count only these hosts"),
    number("virtualmachines", "the number of VMs that have capacity on these hosts"),
    number("cores", "the number of physical CPU cores"),
    number("cputotal", "the total CPU including over-commit, in MHz"),
    number("cpuused", "the allocated CPU, in MHz"),
    number("memorytotal", "the total memory including over-commit, in MiB"),
    number("memoryused", "the allocated memory, in MiB"),
    number("memoryfreeonhost", "the free memory of the host with the most free memory, in MiB"),
    number("storagetotal", "the total storage of the pools that are Up, up to their disable threshold, in bytes"),
    number("storageused", "the allocated storage of these pools, in bytes"),
)

REMAINING_CAPACITY = Response(
    "remainingcapacity",
    (
        number("count", "the number of VMs that one bulk call could still deploy, as the sum over all sizes"),
        *REASON_FIELDS,
        text(
            "losthostid",
            "with n1: the host whose failure could no longer be covered if there were one VM more",
            ROOT_ADMIN_ONLY,
        ),
        text("losthostname", "the name of the host losthostid", ROOT_ADMIN_ONLY),
        EXCLUDED,
        objects(
            "sizes",
            "the sizes of VMs: one size or, with tiered, several sizes in descending order",
            (
                number("cpunumber", "the CPU cores of each VM"),
                number("cpuspeed", "the speed of each CPU core, in MHz"),
                number("memory", "the memory of each VM, in MiB"),
                number("disksize", "the total size of the volumes of each VM, in bytes"),
                number("count", "the number of VMs of this size"),
            ),
        ),
        objects(
            "hosts",
            "the hosts that get VMs, in the order in which they get their first VM",
            (
                text("hostid", "the host"),
                text("hostname", "the name of the host"),
                text("clusterid", "the cluster of the host"),
                text("clustername", "the cluster's name"),
                text("podid", "the cluster's pod"),
                number("count", "the number of VMs that the host gets"),
            ),
            ROOT_ADMIN_ONLY,
        ),
        objects("before", "the figures of the zone at present", USAGE, ROOT_ADMIN_ONLY),
        objects("after", "the figures of the zone after the deployment of these VMs", USAGE, ROOT_ADMIN_ONLY),
    ),
)


def calculate(call: Call) -> Mapping[str, Any]:
    """Return the number of further VMs that fit, the hosts that would get them, and why no more VMs fit."""
    request = deploy_request(call, bulk=True, count=1)
    return calculate_capacity(call.connection, call.caller, request, tiered=call.flag("tiered"), n1=call.flag("n1"))


COMMANDS: tuple[Command, ...] = (
    Command(
        name="calculateCapacity",
        description=(
            "Returns the number of VMs that one bulk call could still deploy now, the hosts that would get them, "
            "and the reason why no more fit"
        ),
        handler=calculate,
        shape=Shape.OBJECT,
        response=REMAINING_CAPACITY,
        roles=ROOT_ADMIN_ONLY,
        # As for any deploy call, a missing default security group of the owner is created.
        changes_state=True,
        parameters=(
            *(parameter for parameter in OF_ANY_VM if parameter.name not in OF_A_DEPLOYMENT),
            boolean(
                "tiered",
                "true: if no more VMs of the requested size fit, the calculation continues with smaller VMs; "
                "requires a custom service offering",
            ),
            boolean("n1", "true: reserve enough capacity in each cluster for the failure of any one host"),
        ),
        unsupported=UNSUPPORTED | NOT_OF_MANY,
        rules=(Exclusive(("podid", "clusterid")), *(rule for rule in RULES if rule not in RULES_OF_A_DEPLOYMENT)),
        errors=(PermissionDenied, OwnerDisabled, ResourceUnavailable),
    ),
)
