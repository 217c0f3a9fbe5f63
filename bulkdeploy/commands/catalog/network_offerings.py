"""Commands of network offerings (one file: the commands of one noun)."""

from collections.abc import Iterable, Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.catalog.offering_lists import CHANGED_PLACES
from bulkdeploy.commands.constant_fields import OF_NETWORK_OFFERINGS
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_VPCS
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.noun import Noun
from bulkdeploy.declare.parameters import boolean, integer, mapping, string, strings, uuid, uuids
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, flag, moment, number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import PermissionDenied, ResourceInUse
from bulkdeploy.domain.networks.network_services import SERVICES
from bulkdeploy.services.catalog import network_offerings as offering_service
from bulkdeploy.services.catalog.offering_places import named_places
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.services.networks.networks import offering_of
from bulkdeploy.services.ownership import require_domain
from bulkdeploy.store.catalog import network_offerings
from bulkdeploy.store.rows.listing import Page

MAX_CONNECTIONS = (
    "the maximum number of concurrent connections of load balancers; "
    "stored without effect, because there are no load balancers"
)

NETWORK_OFFERING = Response(
    "networkoffering",
    (
        text("id", "the network offering"),
        text("name", "the name of the offering"),
        text("displaytext", "the description of the offering"),
        text("guestiptype", "the type of its networks: Isolated, Shared or L2"),
        text("traffictype", "Guest"),
        text("availability", "the availability of networks of the offering: Optional or Required"),
        flag("specifyvlan", "whether callers set the VLAN of a network when they create it"),
        flag("isdefault", "whether the object was created by the installation"),
        flag("forvpc", "always false"),
        text("state", "the state: Enabled or Disabled"),
        flag("specifyipranges", "whether callers set the address ranges of a network when they create it"),
        flag("ispersistent", "whether networks of the offering are set up even if they have no VMs"),
        flag("conservemode", "whether services may share a public address"),
        flag("egressdefaultpolicy", "whether outgoing traffic is allowed without a rule"),
        number("networkrate", "the maximum network rate in Mbit/s; absent: unlimited"),
        number("maxconnections", f"{MAX_CONNECTIONS}; absent: not set"),
        text(
            "serviceofferingid",
            "the service offering for virtual routers; stored without effect, because there are no routers",
        ),
        objects(
            "service",
            "the services of the networks of this offering",
            (
                text("name", "the service, such as Dhcp"),
                objects(
                    "provider",
                    "the providers of the service",
                    (text("name", "the provider, such as VirtualRouter"),),
                ),
                objects(
                    "capability",
                    "the capabilities of the service",
                    (text("name", "the capability"), text("value", "the value of the capability")),
                ),
            ),
        ),
        text("domainid", "the domains that may use the offering, separated by commas; absent: all domains"),
        text("domain", "the names of the domains"),
        text("zoneid", "the zones in which the offering is available, separated by commas; absent: all zones"),
        text("zone", "the names of the zones"),
        text(
            "tags",
            "a tag; networks of the offering are created only on physical networks with this tag; absent: on any",
        ),
        moment("created", "the date and time of creation"),
        *OF_NETWORK_OFFERINGS,
        HAS_ANNOTATIONS,
    ),
)


def list_network_offerings(call: Call) -> Page:
    """Return the network offerings that the caller may use and that match the filters.

    Raises:
        PermissionDenied: the domain or the network is outside the caller's reach.
    """
    domain, network = call.ref("domainid"), call.ref("networkid")
    if domain is not None:
        require_domain(call.connection, call.caller, domain)
    suiting = None if network is None else offering_of(call.connection, call.caller, network)
    return network_offerings.list_network_offerings(
        call.connection, call.caller, call.arguments, paging(call), suiting
    )


def create_network_offering(call: Call) -> Mapping[str, Any]:
    """Create a network offering, and return the offering."""
    (offering,) = offering_service.create_network_offerings(call.connection, call.caller, [call.arguments])
    return _row(call, offering)


def update_network_offering(call: Call) -> Mapping[str, Any]:
    """Change a network offering, and return the offering."""
    offering = call.arguments["id"]
    given = {**call.arguments, **named_places(call.connection, call.caller, call.arguments)}
    offering_service.update_network_offerings(call.connection, call.caller, [(offering, given)])
    return _row(call, offering)


def delete_network_offering(call: Call) -> None:
    """Delete a network offering that no network uses."""
    offering_service.delete_offerings(call.connection, call.caller, [call.arguments["id"]])


def _row(call: Call, offering: EntityRef) -> Mapping[str, Any]:
    return only_row(network_offerings.list_network_offerings(call.connection, call.caller, {"id": offering}, ONE))


AVAILABILITY = string(
    "availability",
    "the availability of networks of the offering: Optional or Required",
    choices=("Optional", "Required"),
)
MAX_CONNECTIONS_PARAMETER = integer("maxconnections", MAX_CONNECTIONS, minimum=1)
NO_ROUTING = "routing protocols are not supported"

CREATE = Command(
    name="createNetworkOffering",
    description="Creates a network offering, which is disabled unless enable=true",
    handler=create_network_offering,
    shape=Shape.OBJECT,
    response=NETWORK_OFFERING,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        string("name", "the name of the offering, unique among network offerings", required=True, rule=NAME),
        string("displaytext", "the description of the offering; default: the name", length=4096),
        string(
            "guestiptype",
            "the type of the networks of this offering: Isolated, Shared or L2",
            required=True,
            choices=("Isolated", "Shared", "L2"),
        ),
        string("traffictype", "Guest", required=True, choices=("Guest",)),
        strings("supportedservices", f"the services of the networks of this offering: {', '.join(SERVICES)}"),
        mapping(
            "serviceproviderlist", "the provider of each service: serviceproviderlist[0].service and [0].provider"
        ),
        mapping(
            "servicecapabilitylist",
            "the capabilities of services: [0].service, [0].capabilitytype, [0].capabilityvalue",
        ),
        boolean("specifyvlan", "whether callers set the VLAN of a network when they create it"),
        boolean(
            "specifyipranges",
            "whether callers set the address ranges of a network when they create it; always true for Shared",
        ),
        boolean("ispersistent", "whether networks of the offering are set up even if they have no VMs"),
        boolean("conservemode", "whether services may share a public address; default true"),
        boolean("egressdefaultpolicy", "whether outgoing traffic is allowed without a rule"),
        integer("networkrate", "the maximum network rate, in Mbit/s", minimum=0, maximum=1_000_000),
        MAX_CONNECTIONS_PARAMETER,
        uuid(
            "serviceofferingid",
            Entity.SERVICE_OFFERING,
            "the service offering of its virtual routers; stored without effect, because there are no routers",
        ),
        boolean("enable", "true: enable the offering at once; default: false"),
        string(
            "internetprotocol",
            "only IPv4 is accepted, because networks have IPv4 addresses only",
            choices=("IPv4",),
        ),
        AVAILABILITY,
        uuids(
            "domainid",
            Entity.DOMAIN,
            "the domains that may use the offering, including the domains below; default: all domains",
        ),
        uuids("zoneid", Entity.ZONE, "the zones in which the offering is available; default: all zones"),
        string(
            "tags", "a tag; networks of the offering are created only on physical networks with this tag", rule=NAME
        ),
    ),
    unsupported={
        "forvpc": NO_VPCS,
        "fornsx": "there is no NSX",
        "fortungsten": "there is no Tungsten Fabric",
        "details": "network offerings have no details",
        "keepaliveenabled": "there are no load balancers",
        "networkmode": NO_ROUTING,
        "routingmode": NO_ROUTING,
        "specifyasnumber": NO_ROUTING,
        "nsxsupportlb": "there is no NSX",
        "nsxsupportsinternallb": "there is no NSX",
        "provider": "use serviceproviderlist to name the provider of each service",
    },
)

UPDATE = Command(
    name="updateNetworkOffering",
    description="Changes a network offering. Existing networks do not change.",
    handler=update_network_offering,
    shape=Shape.OBJECT,
    response=NETWORK_OFFERING,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        uuid("id", Entity.NETWORK_OFFERING, "the offering", required=True),
        string("name", "the new name of the offering, unique among network offerings", rule=NAME),
        string("displaytext", "the new description of the offering", length=4096),
        string("state", "the state: Enabled or Disabled", choices=("Enabled", "Disabled")),
        integer("sortkey", "the position in lists: lower numbers first"),
        AVAILABILITY,
        MAX_CONNECTIONS_PARAMETER,
        *CHANGED_PLACES,
        string(
            "tags",
            "a tag; networks of the offering are created only on physical networks with this tag; empty: on any",
            rule=NAME,
            clearable=True,
        ),
    ),
    unsupported={
        "keepaliveenabled": "there are no load balancers",
    },
)

DELETE = Command(
    name="deleteNetworkOffering",
    description="Deletes a network offering that no network uses",
    handler=delete_network_offering,
    shape=Shape.SUCCESS,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    errors=(ResourceInUse,),
    parameters=(uuid("id", Entity.NETWORK_OFFERING, "the offering", required=True),),
)

COMMANDS = (
    CREATE,
    UPDATE,
    DELETE,
    Command(
        name="listNetworkOfferings",
        description="Lists network offerings",
        handler=list_network_offerings,
        shape=Shape.LIST,
        response=NETWORK_OFFERING,
        parameters=(
            uuid("id", Entity.NETWORK_OFFERING, "only this offering"),
            string("name", "only the offering of this name"),
            string("displaytext", "only offerings of this description"),
            string("guestiptype", "only offerings of this type", choices=("Isolated", "Shared", "L2")),
            string("traffictype", "only offerings with this traffic type"),
            string("availability", "only offerings of this availability"),
            string("state", "only offerings in this state", choices=("Enabled", "Disabled")),
            boolean("isdefault", "true: only offerings that the installation created; false: only others"),
            boolean(
                "specifyvlan", "true: only offerings whose networks get a VLAN from the caller; false: only others"
            ),
            boolean(
                "specifyipranges",
                "true: only offerings whose networks get address ranges from the caller; false: only others",
            ),
            boolean("sourcenatsupported", "true: only offerings with the service SourceNat; false: only others"),
            strings("supportedservices", "only offerings with all these services"),
            string("tags", "only offerings with this tag"),
            boolean("istagged", "true: only offerings with a tag; false: only others"),
            uuid(
                "domainid",
                Entity.DOMAIN,
                "only offerings that this domain may use",
            ),
            uuid(
                "zoneid",
                Entity.ZONE,
                "only offerings that are available in this zone; all are available in every zone",
            ),
            uuid("networkid", Entity.NETWORK, "only offerings to which updateNetwork can change this network"),
            *PAGING,
        ),
        errors=(PermissionDenied,),
        unsupported={
            "forvpc": NO_VPCS,
            "routingmode": NO_ROUTING,
        },
    ),
)


def _in_any_case(entries: Iterable[str | Mapping[str, str]]) -> list[Any]:
    """Return services, or properties of services, in lower case and sorted, for comparison."""
    return sorted(
        one.lower() if isinstance(one, str) else sorted((key, value.lower()) for key, value in one.items())
        for one in entries
    )


NOUNS = (
    Noun(
        section="networkofferings",
        entity=Entity.NETWORK_OFFERING,
        create=CREATE,
        create_many=offering_service.create_network_offerings,
        update=UPDATE,
        update_many=offering_service.update_network_offerings,
        read=network_offerings.read_network_offerings,
        key=lambda values: values["name"],
        compare=dict.fromkeys(("supportedservices", "serviceproviderlist", "servicecapabilitylist"), _in_any_case),
        exports=lambda row: not row["_default"] and bool(row["_offered"]),
    ),
)
