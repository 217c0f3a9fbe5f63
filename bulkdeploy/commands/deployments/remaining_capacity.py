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
"""What makes no sense where nothing is deployed."""

RULES_OF_A_DEPLOYMENT = tuple(rule for rule in RULES if isinstance(rule, Needs) and rule.other in OF_A_DEPLOYMENT)

USAGE = (
    number("hosts", "hosts that are up and enabled; all other figures are of these"),
    number("virtualmachines", "VMs that hold them"),
    number("cores", "physical cores"),
    number("cputotal", "MHz that may be promised, over-commit included"),
    number("cpuused", "MHz that are promised"),
    number("memorytotal", "MiB that may be promised, over-commit included"),
    number("memoryused", "MiB that are promised"),
    number("memoryfreeonhost", "MiB that are free on the host with most of them"),
    number("storagetotal", "bytes that pools that are up may promise, up to their disable threshold"),
    number("storageused", "bytes that they have promised"),
)

REMAINING_CAPACITY = Response(
    "remainingcapacity",
    (
        number("count", "how many more VMs one bulk call could make; of all sizes, where they differ"),
        *REASON_FIELDS,
        text("losthostid", "with n1: the host that could not be lost, were there one VM more", ROOT_ADMIN_ONLY),
        text("losthostname", "that host's name", ROOT_ADMIN_ONLY),
        EXCLUDED,
        objects(
            "sizes",
            "the VMs by size, in the order in which they are placed: one, or with tiered the largest first",
            (
                number("cpunumber", "cores of each"),
                number("cpuspeed", "MHz of each core"),
                number("memory", "MiB of each"),
                number("disksize", "bytes of each one's volumes together"),
                number("count", "how many VMs"),
            ),
        ),
        objects(
            "hosts",
            "the hosts that get VMs, in the order in which they get the first one",
            (
                text("hostid", "the host"),
                text("hostname", "its name"),
                text("clusterid", "its cluster"),
                text("clustername", "the cluster's name"),
                text("podid", "the cluster's pod"),
                number("count", "VMs that it gets"),
            ),
            ROOT_ADMIN_ONLY,
        ),
        objects("before", "the zone as it is", USAGE, ROOT_ADMIN_ONLY),
        objects("after", "the zone with these VMs", USAGE, ROOT_ADMIN_ONLY),
    ),
)


def calculate(call: Call) -> Mapping[str, Any]:
    """Return the number of further VMs that fit, their places, and the reason why no more VMs fit."""
    request = deploy_request(call, bulk=True, count=1)
    return calculate_capacity(call.connection, call.caller, request, tiered=call.flag("tiered"), n1=call.flag("n1"))


COMMANDS: tuple[Command, ...] = (
    Command(
        name="calculateCapacity",
        description="Returns how many more VMs one bulk call could deploy now, on which hosts, and the limit",
        handler=calculate,
        shape=Shape.OBJECT,
        response=REMAINING_CAPACITY,
        roles=ROOT_ADMIN_ONLY,
        # As any deploy call it makes the owner's default security group, where there is none.
        changes_state=True,
        parameters=(
            *(parameter for parameter in OF_ANY_VM if parameter.name not in OF_A_DEPLOYMENT),
            boolean(
                "tiered",
                "true: if no more VMs fit, continue with smaller ones; needs a custom service offering",
            ),
            boolean("n1", "keep enough free capacity in each cluster for the loss of any one host"),
        ),
        unsupported=UNSUPPORTED | NOT_OF_MANY,
        rules=(Exclusive(("podid", "clusterid")), *(rule for rule in RULES if rule not in RULES_OF_A_DEPLOYMENT)),
        errors=(PermissionDenied, OwnerDisabled, ResourceUnavailable),
    ),
)
