"""listIsos: the ISOs that a caller may see."""

from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.catalog.template_fields import FIELDS, FILTER_WORDS, PARAMETERS
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_IMAGE_STORES
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.infrastructure.topology import TemplateKind
from bulkdeploy.store.catalog import templates
from bulkdeploy.store.catalog.templates import TemplateFilter
from bulkdeploy.store.rows.listing import Page


def list_isos(call: Call) -> Page:
    """Return the ISOs that match the ``isofilter``, with one row per zone.

    Raises:
        InvalidParameter: a caller who is no admin gives the filter ``all``.
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    shown = TemplateFilter(call.arguments.get("isofilter", TemplateFilter.SELF_EXECUTABLE))
    if shown is TemplateFilter.ALL and call.caller.role_type is RoleType.USER:
        raise InvalidParameter("isofilter", shown.value, "only admins may list all ISOs")
    return templates.list_templates(
        call.connection,
        call.caller,
        visible(call),
        _filters(call),
        paging(call),
        kind=TemplateKind.ISO,
        shown=shown,
    )


def _filters(call: Call) -> dict[str, Any]:
    """Return the filters of the call without isready=false, which Ansible's cs_iso sends to list every ISO."""
    given = call.arguments
    return {name: given[name] for name in given if name != "isready" or given[name]}


COMMANDS = (
    Command(
        name="listIsos",
        description="Lists ISOs, one row per zone",
        handler=list_isos,
        shape=Shape.LIST,
        response=Response("iso", FIELDS),
        errors=(PermissionDenied,),
        parameters=(
            string(
                "isofilter",
                f"the ISOs to list: {FILTER_WORDS}; default: selfexecutable",
                choices=tuple(word.value for word in TemplateFilter),
            ),
            uuid("id", Entity.ISO, "only this ISO"),
            boolean("bootable", "only bootable ISOs (true) or others (false)"),
            boolean("ispublic", "true: only public images; false: only images that are not public"),
            *PARAMETERS,
        ),
        unsupported=dict.fromkeys(("imagestoreid", "storageid"), NO_IMAGE_STORES),
    ),
)
