"""listTemplates: the templates that a caller may see."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.catalog.template_fields import FIELDS, FILTER_WORDS, PARAMETERS
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_EXTENSIONS, NO_IMAGE_STORES, NO_KUBERNETES, NO_VNF
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import Exclusive, string, strings, uuid, uuids
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.infrastructure.topology import TemplateKind
from bulkdeploy.store.catalog import templates
from bulkdeploy.store.catalog.templates import TemplateFilter
from bulkdeploy.store.rows.listing import Page

NO_HYPERVISOR = "None"
"""The hypervisor of templates for any hypervisor. Clients fail on a template without this field."""


def list_templates(call: Call) -> Page:
    """Return the templates that match the ``templatefilter``, with one row per zone.

    Raises:
        InvalidParameter: a caller who is no admin gives the filter ``all``.
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    shown = TemplateFilter(call.arguments["templatefilter"])
    if shown is TemplateFilter.ALL and call.caller.role_type is RoleType.USER:
        raise InvalidParameter("templatefilter", shown.value, "only admins may list all templates")
    page = templates.list_templates(
        call.connection,
        call.caller,
        visible(call),
        call.arguments,
        paging(call),
        kind=TemplateKind.TEMPLATE,
        shown=shown,
    )
    left_out = ("details", "tags") if call.arguments.get("details") == ("min",) else ()
    rows = [{**row, "hypervisor": row["hypervisor"] or NO_HYPERVISOR} for row in page.rows]
    return Page([{name: row[name] for name in row if name not in left_out} for row in rows], page.count)


COMMANDS = (
    Command(
        name="listTemplates",
        description="Lists templates, one row per zone",
        handler=list_templates,
        shape=Shape.LIST,
        response=Response("template", FIELDS),
        errors=(PermissionDenied,),
        parameters=(
            string(
                "templatefilter",
                f"the templates to list: {FILTER_WORDS}",
                required=True,
                choices=tuple(word.value for word in TemplateFilter),
            ),
            uuid("id", Entity.TEMPLATE, "only this template"),
            uuids("ids", Entity.TEMPLATE, "only these templates"),
            string("templatetype", "only templates of this type"),
            strings("details", "all (default), or min: without details and tags", choices=("all", "min")),
            *PARAMETERS,
        ),
        rules=(Exclusive(("id", "ids")),),
        unsupported={
            **dict.fromkeys(("imagestoreid", "storageid"), NO_IMAGE_STORES),
            "extensionid": NO_EXTENSIONS,
            "forcks": NO_KUBERNETES,
            "isvnf": NO_VNF,
            "parenttemplateid": "templates have no parent templates",
        },
    ),
)
