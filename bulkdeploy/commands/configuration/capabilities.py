"""listCapabilities: the features and settings of the installation."""

from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.response_fields import flag, large_number, number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.compatibility import CLOUDSTACK_VERSION
from bulkdeploy.domain.infrastructure.topology import HypervisorType
from bulkdeploy.domain.virtual_machines.leases import LEASES_ENABLED
from bulkdeploy.drivers.abilities.snapshots import LiveSnapshots, VolumeSnapshots
from bulkdeploy.services.abilities import has_ability
from bulkdeploy.services.catalog.template_publicity import may_be_public
from bulkdeploy.store.catalog.capabilities import any_zone_has_security_groups
from bulkdeploy.store.configuration.configurations import read_configuration

UI_PAGE_SIZE = 20


def list_capabilities(call: Call) -> dict[str, Any]:
    """Return the capabilities of the service as one object.

    The limits of API calls are omitted if API calls are not limited.
    """
    settings = read_configuration(call.connection)
    throttled = settings.flag("api.throttling.enabled")
    return {
        "cloudstackversion": CLOUDSTACK_VERSION,
        "securitygroupsenabled": any_zone_has_security_groups(call.connection),
        "dynamicrolesenabled": True,
        "allowuserviewdestroyedvm": call.caller.is_root_admin or settings.flag("allow.user.view.destroyed.vm"),
        "allowuserexpungerecovervm": call.caller.is_root_admin or settings.flag("allow.user.expunge.recover.vm"),
        "allowuserforcestopvm": call.caller.is_root_admin or settings.flag("allow.user.force.stop.vm"),
        "instanceleaseenabled": settings.flag(LEASES_ENABLED),
        "projectinviterequired": settings.flag("project.invite.required"),
        "allowusercreateprojects": call.caller.is_root_admin or settings.flag("allow.user.create.projects"),
        "userpublictemplateenabled": may_be_public(call.connection, call.caller, call.caller.owner.account_id),
        "customdiskofferingminsize": settings.number("custom.diskoffering.size.min"),
        "customdiskofferingmaxsize": settings.number("custom.diskoffering.size.max"),
        "defaultuipagesize": UI_PAGE_SIZE,
        "apilimitinterval": settings.number("api.throttling.interval") if throttled else None,
        "apilimitmax": settings.number("api.throttling.max") if throttled else None,
        "instancesstatsretentiontime": settings.number("vm.stats.max.retention.time"),
        "supportELB": "false",
        "kvmsnapshotenabled": all(has_ability(call.system.drivers, KVM, ability) for ability in OF_RUNNING_VOLUMES),
        **dict.fromkeys(ABSENT, False),
    }


KVM, OF_RUNNING_VOLUMES = HypervisorType.KVM.value, (VolumeSnapshots, LiveSnapshots)

ABSENT = (
    "additionalconfigenabled",
    "allowuserexpungerecovervolume",
    "allowuserviewalldomainaccounts",
    "dynamicscalingenabled",
    "instancesdisksstatsretentionenabled",
    "instancesstatsuseronly",
    "kubernetesclusterexperimentalfeaturesenabled",
    "kubernetesserviceenabled",
    "regionsecondaryenabled",
)
"""Features of CloudStack that this service does not have. Clients read these fields."""

COMMANDS = (
    Command(
        name="listCapabilities",
        description="Returns the capabilities and the main settings of the installation",
        handler=list_capabilities,
        shape=Shape.OBJECT,
        response=Response(
            "capability",
            (
                text("cloudstackversion", "the version of CloudStack whose API the service implements"),
                flag("securitygroupsenabled", "whether any zone has security groups"),
                flag("dynamicrolesenabled", "whether roles have rules"),
                flag("allowuserviewdestroyedvm", "whether the caller sees its destroyed VMs"),
                flag("allowuserexpungerecovervm", "whether the caller may expunge and recover its VMs"),
                flag("allowuserforcestopvm", "whether the caller may stop its VMs with force"),
                flag("instanceleaseenabled", "whether VMs can have leases"),
                flag("projectinviterequired", "whether accounts are invited to projects instead of added"),
                flag("allowusercreateprojects", "whether the caller may create projects"),
                flag("userpublictemplateenabled", "whether the caller may make its templates public"),
                large_number(
                    "customdiskofferingminsize", "the minimum size of disks whose size callers choose, in GiB"
                ),
                large_number(
                    "customdiskofferingmaxsize", "the maximum size of disks whose size callers choose, in GiB"
                ),
                large_number("defaultuipagesize", "the number of rows that user interfaces show on a page"),
                number("apilimitinterval", "the length of the interval in which API calls are counted, in seconds"),
                number("apilimitmax", "the maximum number of API calls of an account in an interval"),
                number(
                    "instancesstatsretentiontime", "the number of minutes for which measurements of VMs are kept"
                ),
                text("supportELB", "whether there are elastic load balancers"),
                flag("kvmsnapshotenabled", "whether volumes of running VMs on KVM hosts have snapshots"),
                *(
                    flag(name, "always false: the service does not have this feature of CloudStack")
                    for name in ABSENT
                ),
            ),
        ),
    ),
)
