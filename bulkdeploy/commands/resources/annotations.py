"""Commands of annotations, which are remarks of users on resources."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import Needs, Parameter, WireType, boolean, string, uuid
from bulkdeploy.declare.response_fields import flag, moment, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.services.resources import annotations as service
from bulkdeploy.store.resources import annotations
from bulkdeploy.store.rows.listing import Page

ANNOTATION = Response(
    "annotation",
    (
        text("id", "the annotation"),
        text("entitytype", "the type of the annotated resource"),
        text("entityid", "the annotated resource"),
        text("entityname", "the name of the annotated resource"),
        text("annotation", "the text of the annotation"),
        text("userid", "the user who wrote the annotation"),
        text("username", "the name of the user who wrote the annotation"),
        flag("adminsonly", "whether only root admins see the annotation"),
        moment("created", "when the annotation was written"),
    ),
)
ENTITY_TYPE = string("entitytype", "the type of the annotated resource", choices=service.TYPES)


def list_annotations(call: Call) -> Page:
    """Return the annotations that the caller may see and that match the filters."""
    return annotations.list_annotations(call.connection, call.caller, call.arguments, paging(call))


def add_annotation(call: Call) -> Mapping[str, Any]:
    """Add an annotation to an entity, and return the annotation."""
    given = call.arguments
    ref = service.add_annotation(
        call.connection,
        call.caller,
        given["annotation"],
        given["entitytype"],
        given["entityid"],
        admins_only=call.flag("adminsonly"),
    )
    return only_row(annotations.list_annotations(call.connection, call.caller, {"id": ref}, ONE))


def remove_annotation(call: Call) -> Mapping[str, Any]:
    """Delete an annotation, and return its last state."""
    ref = call.arguments["id"]
    row = service.read_annotation(call.connection, call.caller, ref)
    service.remove_annotation(call.connection, call.caller, ref)
    return row


def update_annotation_visibility(call: Call) -> Mapping[str, Any]:
    """Show an annotation only to root admins, or to all callers who may see the resource. Return it."""
    ref = call.arguments["id"]
    service.update_visibility(call.connection, call.caller, ref, admins_only=call.flag("adminsonly"))
    return service.read_annotation(call.connection, call.caller, ref)


COMMANDS = (
    Command(
        name="listAnnotations",
        authorized=ROOT_ADMIN_ONLY,
        description="Lists the annotations of resources that the caller owns; root admins see all annotations",
        handler=list_annotations,
        shape=Shape.LIST,
        response=ANNOTATION,
        parameters=(
            uuid("id", Entity.ANNOTATION, "only this annotation"),
            ENTITY_TYPE,
            string("entityid", "only annotations of this resource"),
            uuid("userid", Entity.USER, "only annotations of this user"),
            string(
                "annotationfilter",
                "self: only annotations that the caller wrote; all: annotations of all users",
                choices=("self", "all"),
            ),
            *PAGING,
        ),
        rules=(Needs("entityid", "entitytype"),),
    ),
    Command(
        name="addAnnotation",
        authorized=ROOT_ADMIN_ONLY,
        description="Adds an annotation to a resource",
        handler=add_annotation,
        shape=Shape.OBJECT,
        response=ANNOTATION,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            string("annotation", "the text of the annotation", required=True, length=4096),
            string("entitytype", "the type of the resource", required=True, choices=service.TYPES),
            string("entityid", "the resource", required=True),
            boolean("adminsonly", "whether only root admins see the annotation", roles=ROOT_ADMIN_ONLY),
        ),
    ),
    Command(
        name="removeAnnotation",
        authorized=ROOT_ADMIN_ONLY,
        description="Deletes an annotation; its author and root admins may do so",
        handler=remove_annotation,
        shape=Shape.OBJECT,
        response=ANNOTATION,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(uuid("id", Entity.ANNOTATION, "the annotation", required=True),),
    ),
    Command(
        name="updateAnnotationVisibility",
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        description="Shows an annotation to root admins only, or to everybody who may see the resource",
        handler=update_annotation_visibility,
        shape=Shape.OBJECT,
        response=ANNOTATION,
        changes_state=True,
        parameters=(
            uuid("id", Entity.ANNOTATION, "the annotation", required=True),
            Parameter("adminsonly", WireType.BOOLEAN, "whether only root admins see the annotation", required=True),
        ),
    ),
)
