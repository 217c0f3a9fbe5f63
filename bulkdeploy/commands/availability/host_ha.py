"""configureHAForHost and the other commands of host HA."""

from bulkdeploy.commands.availability.parameters import THE_HOST
from bulkdeploy.commands.availability.responses import HOST_HA
from bulkdeploy.commands.availability.switches import switch_commands
from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.response_fields import number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.infrastructure.topology import HypervisorType
from bulkdeploy.services.availability import host_ha as service
from bulkdeploy.store.availability import host_ha as store
from bulkdeploy.store.rows.listing import Page, cut_page

SIMULATED = ("health", "activity", "recover", "fence")


def configure(call: Call) -> JobTicket:
    """Configure the host HA provider of a host."""
    return service.configure(call.connection, call.caller, call.arguments["hostid"], call.arguments["provider"])


def list_resources(call: Call) -> Page:
    """Return the hosts for which host HA is configured."""
    host = call.ref("hostid")
    rows = store.list_configured(call.connection, None if host is None else host.id)
    return Page(rows, len(rows))


def list_providers(call: Call) -> Page:
    """Return the host HA provider for a hypervisor type.

    Raises:
        InvalidParameter: the hypervisor type does not exist.
    """
    given = call.arguments["hypervisor"]
    if HypervisorType.parse(given) is None:
        names = ", ".join(kind.value for kind in HypervisorType)
        raise InvalidParameter("hypervisor", given, f"the hypervisor types are {names}")
    return Page([{"haprovider": service.provider_of(given)}], 1)


def configure_simulated(call: Call) -> None:
    """Set the simulated results of the checks of a simulated host."""
    given = {name: call.flag(name) for name in SIMULATED}
    service.configure_simulated(call.connection, call.arguments["hostid"], given)


def list_transitions(call: Call) -> Page:
    """Return the last state transitions of a host."""
    rows = service.list_transitions(call.connection, call.arguments["hostid"])
    keyword = (call.text("keyword") or "").lower()
    found = [row for row in rows if any(keyword in row[name] for name in ("event", "prevhastate", "hastate"))]
    return cut_page(found, paging(call))


COMMANDS: tuple[Command, ...] = (
    Command(
        name="configureHAForHost",
        description="Configures the provider of host HA for a host",
        since="4.11",
        handler=configure,
        shape=Shape.JOB,
        response=HOST_HA,
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            THE_HOST,
            string(
                "provider", "the name of the host HA provider, as returned by listHostHAProviders", required=True
            ),
        ),
    ),
    *switch_commands("HA", "host HA", "4.11", service.set_enabled, HOST_HA, answers_success_of_many=True),
    Command(
        name="listHostHAResources",
        description="Lists hosts with host HA and their states",
        since="4.11",
        handler=list_resources,
        shape=Shape.LIST,
        response=HOST_HA,
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        parameters=(uuid("hostid", Entity.HOST, "only this host"),),
    ),
    Command(
        name="listHostHAProviders",
        description="Lists the providers of host HA for a hypervisor",
        since="4.11",
        handler=list_providers,
        shape=Shape.LIST,
        response=Response("haprovider", (text("haprovider", "the name of the provider"),)),
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        parameters=(string("hypervisor", "only providers for hosts of this hypervisor", required=True),),
    ),
    Command(
        name="configureSimulatorHAProviderState",
        description="Simulates health, activity, recovery and fencing of a simulated host, with short intervals",
        handler=configure_simulated,
        shape=Shape.SUCCESS,
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            THE_HOST,
            boolean("health", "the simulated health: whether the host responds"),
            boolean("activity", "the simulated activity: whether the host's virtual machines are active"),
            boolean("recover", "the simulated recovery: whether the host can be reset"),
            boolean("fence", "the simulated fencing: whether the host can be fenced"),
        ),
    ),
    Command(
        name="listSimulatorHAStateTransitions",
        description="Lists the last transitions of a host between states of host HA, the oldest first",
        handler=list_transitions,
        shape=Shape.LIST,
        response=Response(
            "hastatetransition",
            (
                text("event", "the event that caused the transition"),
                text("prevhastate", "the state before"),
                text("hastate", "the state after"),
                number("activitycounter", "the number of activity checks that returned a result"),
                number("recoverycounter", "the number of resets"),
            ),
        ),
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        parameters=(THE_HOST, *PAGING),
    ),
)
