"""Commands that dedicate zones, pods, clusters and hosts to one domain or account, release and list them."""

from functools import partial

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.noun import Noun, by
from bulkdeploy.declare.parameters import Parameter, string, uuid
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import ResourceInUse
from bulkdeploy.services.infrastructure import dedications as service
from bulkdeploy.store.infrastructure import dedications
from bulkdeploy.store.rows.listing import Page


def list_dedications(place: Entity, call: Call) -> Page:
    """Return the dedicated zones, pods, clusters or hosts, depending on ``place``."""
    return dedications.list_dedications(call.connection, place, call.arguments, paging(call))


def dedicate(place: Entity, call: Call) -> JobTicket:
    """Dedicate a zone, pod, cluster or host to one domain or account."""
    (ref,) = service.dedicate_places(place, call.connection, call.caller, [call.arguments])
    return service.dedicated(call.connection, call.caller, ref)


def release(place: Entity, call: Call) -> JobTicket:
    """Release the dedication of a zone, pod, cluster or host."""
    ref = call.arguments[f"{place.name.lower()}id"]
    service.release_places(call.connection, call.caller, [ref])
    return service.released(call.connection, call.caller, ref)


def _commands(place: Entity) -> tuple[Command, ...]:
    word = place.name.lower()
    dedicated = Response(
        f"dedicated{word}",
        (
            text("id", "the dedication"),
            text(f"{word}id", f"the {word}"),
            text(f"{word}name", f"the {word}'s name"),
            text("domainid", "the domain for which the resource is dedicated"),
            text(
                "accountid",
                "the account for which the resource is dedicated; absent if it is dedicated to the whole domain",
            ),
            text(
                "affinitygroupid",
                "the affinity group of the dedication; VMs in this group are placed on the dedicated resource",
            ),
        ),
    )
    which = uuid(f"{word}id", place, f"the {word}", required=True)
    return (_dedicate(place, dedicated, which), _release(place, which), _list(place, dedicated))


def _dedicate(place: Entity, dedicated: Response, which: Parameter) -> Command:
    return Command(
        name=f"dedicate{place.name.capitalize()}",
        description=f"Dedicates a {place.name.lower()} to one domain or account",
        handler=partial(dedicate, place),
        shape=Shape.JOB,
        response=dedicated,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        errors=(ResourceInUse,),
        parameters=(
            which,
            uuid(
                "domainid", Entity.DOMAIN, "the domain; the domains below may use the resource, too", required=True
            ),
            string(
                "account",
                "the account of the domain that alone may use the resource; default: all accounts of the domain",
            ),
        ),
    )


def _release(place: Entity, which: Parameter) -> Command:
    return Command(
        name=f"releaseDedicated{place.name.capitalize()}",
        description=f"Releases the dedication of a {place.name.lower()}",
        handler=partial(release, place),
        shape=Shape.JOB_SUCCESS,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(which,),
    )


def _list(place: Entity, dedicated: Response) -> Command:
    word = place.name.lower()
    return Command(
        name=f"listDedicated{place.name.capitalize()}s",
        description=f"Lists {word}s that are dedicated to a domain or an account",
        handler=partial(list_dedications, place),
        shape=Shape.LIST,
        response=dedicated,
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            uuid(f"{word}id", place, f"only this {word}"),
            uuid("domainid", Entity.DOMAIN, "only resources that are dedicated to this domain"),
            string("account", "only resources that are dedicated to accounts with this name"),
            uuid(
                "affinitygroupid", Entity.AFFINITY_GROUP, "only resources whose dedication has this affinity group"
            ),
            *PAGING,
        ),
    )


PLACES = {place: _commands(place) for place in (Entity.ZONE, Entity.POD, Entity.CLUSTER, Entity.HOST)}
COMMANDS = tuple(command for commands in PLACES.values() for command in commands)

NOUNS = tuple(
    Noun(
        section=f"dedicated{place.name.lower()}s",
        create=dedicating,
        create_many=partial(service.dedicate_places, place),
        read=partial(dedications.read_dedications, place),
        key=by(f"{place.name.lower()}id"),
        parent=f"{place.name.lower()}id",
    )
    for place, (dedicating, _, _) in PLACES.items()
)
