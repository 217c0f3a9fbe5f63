"""Commands of network service providers and their elements, which clients configure when they build a zone."""

from functools import partial

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import Parameter, WireType, boolean, string, strings, uuid
from bulkdeploy.declare.response_fields import flag, objects, text, texts
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.networks.network_services import PROVIDERS, SERVICES
from bulkdeploy.services.infrastructure import network_service_providers as provider_service
from bulkdeploy.services.infrastructure.network_service_providers import ELEMENTS_BY_KEY
from bulkdeploy.store.infrastructure import physical_networks
from bulkdeploy.store.rows.listing import Page, cut_page

PROVIDER = Response(
    "networkserviceprovider",
    (
        text("id", "the provider"),
        text("name", "the name of the provider, such as VirtualRouter"),
        text("state", "the state: Enabled or Disabled"),
        text("physicalnetworkid", "the physical network of the provider"),
        texts("servicelist", "the network services that the provider offers"),
        flag("canenableindividualservice", "always true: services can be selected one by one with servicelist"),
    ),
)

NETWORK_SERVICE = Response(
    "networkservice",
    (
        text("name", "the service, such as Dhcp"),
        objects(
            "provider",
            "the providers that can offer the service",
            (text("name", "the provider, such as VirtualRouter"),),
        ),
    ),
)

ELEMENT_FIELDS = (
    text("id", "the element"),
    text("nspid", "the provider of the element"),
    flag("enabled", "whether the element is enabled"),
)
SERVICE_LIST = strings(
    "servicelist", "the network services that the provider offers; default: all services that it supports"
)


def list_providers(call: Call) -> Page:
    """Return the network service providers that match the filters."""
    return physical_networks.list_providers(call.connection, call.arguments, paging(call))


def add_provider(call: Call) -> JobTicket:
    """Add a disabled network service provider to a physical network."""
    return provider_service.add_provider(call.connection, call.caller, call.arguments)


def update_provider(call: Call) -> JobTicket:
    """Enable or disable a network service provider, or change its services."""
    return provider_service.update_provider(call.connection, call.caller, call.arguments["id"], call.arguments)


def delete_provider(call: Call) -> JobTicket:
    """Delete a network service provider."""
    provider = call.arguments["id"]
    provider_service.delete_providers(call.connection, call.caller, [provider])
    return provider_service.deleted(call.connection, call.caller, provider)


def list_services(call: Call) -> Page:
    """Return the services that networks can offer, with the providers of each service."""
    service, provider, part = call.text("service"), call.text("provider"), call.text("keyword")
    rows = [
        {"name": name, "provider": [{"name": offering} for offering in offered]}
        for name, offered in SERVICES.items()
        if (service is None or name.lower() == service.lower())
        and (provider is None or provider in offered)
        and (part is None or part.lower() in name.lower())
    ]
    return cut_page(rows, paging(call))


def list_elements(key: str, call: Call) -> Page:
    """Return the elements of service providers that must be configured."""
    return physical_networks.list_elements(call.connection, ELEMENTS_BY_KEY[key], call.arguments, paging(call))


def configure_element(key: str, cmd: str, call: Call) -> JobTicket:
    """Enable or disable an element of a network service provider."""
    element = call.arguments["id"]
    return provider_service.configure_element(
        call.connection, call.caller, key, cmd, element, enabled=call.flag("enabled")
    )


def _element_commands(noun: str, plural: str, key: str, cmd: str) -> tuple[Command, ...]:
    response = Response(key, ELEMENT_FIELDS)
    return (
        Command(
            name=f"list{plural}",
            description=(
                "Lists the elements of network providers that must be configured before the providers are enabled"
            ),
            handler=partial(list_elements, key),
            shape=Shape.LIST,
            response=response,
            roles=ROOT_ADMIN_ONLY,
            parameters=(
                uuid("id", Entity.NETWORK_SERVICE_PROVIDER, "only this element"),
                uuid("nspid", Entity.NETWORK_SERVICE_PROVIDER, "only the element of this provider"),
                boolean("enabled", "true: only enabled elements; false: only disabled ones"),
                *PAGING,
            ),
        ),
        Command(
            name=f"configure{noun}",
            description="Enables or disables the elements of a provider",
            handler=partial(configure_element, key, cmd),
            shape=Shape.JOB,
            response=response,
            roles=ROOT_ADMIN_ONLY,
            changes_state=True,
            parameters=(
                uuid("id", Entity.NETWORK_SERVICE_PROVIDER, "the element", required=True),
                Parameter("enabled", WireType.BOOLEAN, "whether the element is enabled", required=True),
            ),
        ),
    )


COMMANDS = (
    *_element_commands(
        "VirtualRouterElement",
        "VirtualRouterElements",
        "virtualrouterelement",
        "router.ConfigureVirtualRouterElementCmd",
    ),
    *_element_commands(
        "InternalLoadBalancerElement",
        "InternalLoadBalancerElements",
        "internalloadbalancerelement",
        "internallb.ConfigureInternalLoadBalancerElementCmd",
    ),
    Command(
        name="listSupportedNetworkServices",
        description="Lists the services that networks can offer, and their providers",
        handler=list_services,
        shape=Shape.LIST,
        response=NETWORK_SERVICE,
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            string("service", "only this service"),
            string("provider", "only services of this provider", choices=tuple(PROVIDERS)),
            *PAGING,
        ),
    ),
    Command(
        name="listNetworkServiceProviders",
        description="Lists providers of network services",
        handler=list_providers,
        shape=Shape.LIST,
        response=PROVIDER,
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            uuid("physicalnetworkid", Entity.PHYSICAL_NETWORK, "only providers of this physical network"),
            string("name", "only providers of this name"),
            string("state", "only providers in this state, such as Enabled"),
            *PAGING,
        ),
    ),
    Command(
        name="addNetworkServiceProvider",
        description="Adds a provider of network services to a physical network; the provider is disabled at first",
        handler=add_provider,
        shape=Shape.JOB,
        response=PROVIDER,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            uuid("physicalnetworkid", Entity.PHYSICAL_NETWORK, "the physical network", required=True),
            string(
                "name",
                "the name of the provider; providers that are hardware appliances are rejected",
                required=True,
                choices=tuple(PROVIDERS),
            ),
            SERVICE_LIST,
        ),
        unsupported={
            "destinationphysicalnetworkid": "traffic between physical networks is not bridged",
        },
    ),
    Command(
        name="updateNetworkServiceProvider",
        description="Enables or disables a provider of network services, or changes which services it offers",
        handler=update_provider,
        shape=Shape.JOB,
        response=PROVIDER,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            uuid("id", Entity.NETWORK_SERVICE_PROVIDER, "the provider", required=True),
            string("state", "the state: Enabled or Disabled", choices=("Enabled", "Disabled")),
            SERVICE_LIST,
        ),
    ),
    Command(
        name="deleteNetworkServiceProvider",
        description="Deletes a provider of network services",
        handler=delete_provider,
        shape=Shape.JOB_SUCCESS,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(uuid("id", Entity.NETWORK_SERVICE_PROVIDER, "the provider", required=True),),
    ),
)
