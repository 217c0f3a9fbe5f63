"""configureOutOfBandManagement and the commands that use a host's management controller."""

from typing import Any

from bulkdeploy.commands.availability.parameters import THE_HOST
from bulkdeploy.commands.availability.responses import OUT_OF_BAND_MANAGEMENT
from bulkdeploy.commands.availability.switches import switch_commands
from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.parameters import long, string
from bulkdeploy.declare.responses import Shape
from bulkdeploy.declare.value_rules import BMC_ADDRESS, BMC_USER, PORT
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.infrastructure.power import PowerAction
from bulkdeploy.services.availability import out_of_band_management as service

LONGEST_TIMEOUT_S = 3600


def configure(call: Call) -> dict[str, Any]:
    """Store the address and credentials of a host's management controller. Return them without the password."""
    return service.configure(call.connection, call.system, call.caller, call.arguments["hostid"], call.arguments)


def issue_power_action(call: Call) -> JobTicket:
    """Create the job that runs a power action on a host by its management controller."""
    return service.issue_power_action(
        call.connection,
        call.system,
        call.caller,
        call.arguments["hostid"],
        action=PowerAction(call.arguments["action"]),
        timeout_s=call.arguments.get("timeout"),
    )


def change_password(call: Call) -> JobTicket:
    """Create the job that changes the password of a host's management controller."""
    return service.change_password(
        call.connection, call.system, call.caller, call.arguments["hostid"], call.arguments.get("password")
    )


COMMANDS: tuple[Command, ...] = (
    Command(
        name="configureOutOfBandManagement",
        description="Configures how the management controller (BMC) of a host is reached. The password is stored"
        " encrypted and never shown",
        since="4.9.0",
        handler=configure,
        shape=Shape.OBJECT,
        response=OUT_OF_BAND_MANAGEMENT,
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            THE_HOST,
            string(
                "driver",
                "the power driver: redfish, ipmitool, simulator, or the name of an installed driver",
                required=True,
            ),
            string(
                "address",
                "the IP address or the name of the controller; for Redfish also address/SYSTEM, if the controller"
                " manages several systems",
                required=True,
                rule=BMC_ADDRESS,
            ),
            string(
                "port",
                "the port of the controller, such as 443 for Redfish and 623 for IPMI",
                required=True,
                rule=PORT,
            ),
            string("username", "the name of the user on the controller", required=True, length=64, rule=BMC_USER),
            string("password", "the password of that user", required=True, length=128),
        ),
    ),
    *switch_commands(
        "OutOfBandManagement", "out-of-band management", "4.9.0", service.set_enabled, OUT_OF_BAND_MANAGEMENT
    ),
    Command(
        name="issueOutOfBandManagementPowerAction",
        description="Issues a power action to the management controller of a host. OFF cuts the power at once.",
        since="4.9.0",
        handler=issue_power_action,
        shape=Shape.JOB,
        response=OUT_OF_BAND_MANAGEMENT,
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            THE_HOST,
            string(
                "action",
                "ON, OFF, CYCLE, RESET, SOFT (the operating system shuts down) or STATUS",
                required=True,
                choices=tuple(action.value for action in PowerAction),
            ),
            long(
                "timeout",
                "the timeout in seconds; default: outofbandmanagement.action.timeout",
                minimum=1,
                maximum=LONGEST_TIMEOUT_S,
            ),
        ),
    ),
    Command(
        name="changeOutOfBandManagementPassword",
        description=(
            "Changes the password of the user of a host's management controller, both on the controller and in the "
            "stored configuration"
        ),
        since="4.9.0",
        handler=change_password,
        shape=Shape.JOB,
        response=OUT_OF_BAND_MANAGEMENT,
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            THE_HOST,
            string("password", "the new password; default: a random password", length=20),
        ),
    ),
)
