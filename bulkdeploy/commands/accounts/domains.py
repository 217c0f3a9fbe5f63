"""listDomains, listDomainChildren, createDomain, updateDomain and deleteDomain."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.accounts.responses import DOMAIN_COUNTERS
from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_CUSTOM_IDS, NO_TAGGED_LIMITS
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING, SHOW_ICON
from bulkdeploy.declare.noun import Noun, by
from bulkdeploy.declare.parameters import boolean, integer, string, strings, uuid
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, flag, moment, number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import DOMAIN_NAME, NETWORK_DOMAIN
from bulkdeploy.domain.accounts.accounts import ADMINS, ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, ResourceInUse
from bulkdeploy.services.accounts import domains as service
from bulkdeploy.services.ownership import require_domain
from bulkdeploy.store.accounts import domains
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.rows.live_rows import reader

DETAILS = ("all", "resource", "min")
DOMAIN_MAKERS = frozenset({RoleType.ADMIN, RoleType.DOMAIN_ADMIN})

DOMAIN = Response(
    "domain",
    (
        text("id", "the domain"),
        text("name", "the name of the domain"),
        number("level", "the depth of the domain; ROOT has depth 0"),
        text("path", "the names of all domains from ROOT down to this one, such as ROOT/a/b"),
        text("parentdomainid", "the parent domain"),
        text("parentdomainname", "the name of the parent domain"),
        flag("haschild", "whether the domain has child domains"),
        text("networkdomain", "the default DNS domain of the networks"),
        text("state", "Active"),
        moment("created", "the date and time of creation"),
        *DOMAIN_COUNTERS,
        HAS_ANNOTATIONS,
    ),
)


def list_domains(call: Call) -> Page:
    """Return the domains that the caller may see.

    Root admins see all domains. Other callers see their own domain, and with ``listall`` also the domains below it.

    Raises:
        PermissionDenied: ``id`` is outside the caller's reach.
    """
    details = call.arguments.get("details", ("all",))
    wanted = call.ref("id")
    if wanted is not None:
        require_domain(call.connection, call.caller, wanted)
    bounded = wanted is None and not call.caller.is_root_admin
    return domains.list_domains(
        call.connection,
        call.arguments,
        paging(call),
        lineage=call.caller.owner.lineage if bounded else None,
        recursive=call.flag("listall"),
        with_counters=any(word != "min" for word in details),
    )


def list_domain_children(call: Call) -> Page:
    """Return the domains below a domain, by default below the caller's domain.

    Raises:
        PermissionDenied: ``id`` is outside the caller's reach.
    """
    wanted = call.ref("id")
    parent = call.caller.owner.lineage
    if wanted is not None:
        parent = require_domain(call.connection, call.caller, wanted)
    return domains.list_children(
        call.connection,
        call.arguments,
        paging(call),
        parent_lineage=parent,
        recursive=call.flag("isrecursive") or call.flag("listall"),
    )


def create_domain(call: Call) -> Mapping[str, Any]:
    """Create a domain, and return the domain.

    Raises:
        InvalidParameter, PermissionDenied: the name is in use, or the parent domain is outside the caller's reach.
    """
    (domain,) = service.create_domains(call.connection, call.caller, [call.arguments])
    return domains.read_domain(call.connection, domain.id)


def update_domain(call: Call) -> Mapping[str, Any]:
    """Change the name or the network domain of a domain, and return the domain.

    Raises:
        InvalidParameter, PermissionDenied: the name is in use, or the domain is outside the caller's reach.
    """
    domain = call.arguments["id"]
    service.update_domains(call.connection, call.caller, [(domain, call.arguments)])
    return domains.read_domain(call.connection, domain.id)


def delete_domain(call: Call) -> JobTicket:
    """Delete a domain.

    With ``cleanup`` its accounts and subdomains are deleted, too.

    Raises:
        InvalidParameter, PermissionDenied, ResourceInUse: the domain cannot be deleted, is outside the caller's
            reach, or is not empty.
    """
    queue, domain = call.system.job_queue, call.arguments["id"]
    removed = service.delete_domains(call.connection, queue, call.caller, [domain], cleanup=call.flag("cleanup"))
    return service.deleted(call.connection, call.caller, domain, removed)


CREATE = Command(
    name="createDomain",
    description="Creates a domain",
    handler=create_domain,
    shape=Shape.OBJECT,
    response=DOMAIN,
    roles=DOMAIN_MAKERS,
    authorized=DOMAIN_MAKERS,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        string(
            "name",
            "the name of the domain; unique among the domains with the same parent",
            required=True,
            rule=DOMAIN_NAME,
        ),
        uuid("parentdomainid", Entity.DOMAIN, "the parent domain; default: the domain of the caller"),
        string("networkdomain", "the default DNS domain of the networks", rule=NETWORK_DOMAIN, clearable=True),
    ),
    unsupported={"domainid": NO_CUSTOM_IDS},
)

UPDATE = Command(
    name="updateDomain",
    description="Changes the name or network domain of a domain",
    handler=update_domain,
    shape=Shape.OBJECT,
    response=DOMAIN,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        uuid("id", Entity.DOMAIN, "the domain", required=True),
        string("name", "the new name of the domain", rule=DOMAIN_NAME),
        string("networkdomain", "the DNS domain of its networks; empty: none", rule=NETWORK_DOMAIN, clearable=True),
    ),
)

COMMANDS = (
    Command(
        name="listDomains",
        description="Lists domains with their limits and totals",
        handler=list_domains,
        shape=Shape.LIST,
        response=DOMAIN,
        roles=ADMINS,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.DOMAIN, "only this domain"),
            string("name", "only domains of this name"),
            integer("level", "only domains at this depth; ROOT has depth 0"),
            boolean("listall", "true: also the domains below the domain of the caller"),
            strings(
                "details",
                "the groups of fields that the response contains for each domain; default: all",
                choices=DETAILS,
            ),
            SHOW_ICON,
            *PAGING,
        ),
        unsupported={"tag": NO_TAGGED_LIMITS},
    ),
    Command(
        name="listDomainChildren",
        description="Lists the domains below a domain",
        handler=list_domain_children,
        shape=Shape.LIST,
        response=DOMAIN,
        roles=ADMINS,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.DOMAIN, "the parent domain; default: the domain of the caller"),
            string("name", "only domains of this name"),
            boolean(
                "isrecursive",
                "true: all domains below the parent domain, at any depth; default: only its direct children",
            ),
            boolean("listall", "the same as isrecursive"),
            SHOW_ICON,
            *PAGING,
        ),
    ),
    CREATE,
    UPDATE,
    Command(
        name="deleteDomain",
        description="Deletes a domain; with cleanup all accounts, projects and domains in it, too",
        handler=delete_domain,
        shape=Shape.JOB_SUCCESS,
        roles=DOMAIN_MAKERS,
        authorized=DOMAIN_MAKERS,
        changes_state=True,
        errors=(PermissionDenied, ResourceInUse),
        parameters=(
            uuid("id", Entity.DOMAIN, "the domain", required=True),
            boolean(
                "cleanup",
                "true: also delete all accounts, projects and domains in the domain; otherwise the domain must "
                "be empty",
            ),
        ),
    ),
)

NOUNS = (
    Noun(
        section="domains",
        entity=Entity.DOMAIN,
        create=CREATE,
        create_many=service.create_domains,
        update=UPDATE,
        update_many=service.update_domains,
        read=reader(Entity.DOMAIN, domains.FIELDS),
        key=by("parentdomainid", "name"),
        parent="parentdomainid",
        defaults={"parentdomainid": "ROOT"},
        exports=lambda row: row["parentdomainid"] is not None,
    ),
)
