"""createSnapshotPolicy, listSnapshotPolicies, updateSnapshotPolicy and deleteSnapshotPolicies."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_CUSTOM_IDS, ONLY_ZONE_OF_VOLUME, SNAPSHOTS_IN_VOLUMES
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import ExactlyOne, boolean, integer, mapping, string, uuid, uuids
from bulkdeploy.declare.response_fields import TAGS, constant, flag, number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import TIME_ZONE
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE, ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.schedules.snapshot_schedules import FORMS, Interval
from bulkdeploy.services.virtual_machines.resource_tags import create_tags
from bulkdeploy.services.volumes import snapshot_policies as service
from bulkdeploy.services.volumes.snapshot_policies import NewPolicy
from bulkdeploy.store.resource_tags import SNAPSHOT_POLICY
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.volumes import snapshot_policies as store

POLICY = Response(
    "snapshotpolicy",
    (
        text("id", "the policy"),
        text("volumeid", "the volume of which the policy takes snapshots"),
        text("volumename", "the volume's name"),
        text("schedule", f"the times of the snapshots: {', '.join(form for form, _ in FORMS.values())}"),
        number("intervaltype", "how often the policy takes snapshots: 0 hourly, 1 daily, 2 weekly, 3 monthly"),
        number("maxsnaps", "the maximum number of snapshots of the policy; a further snapshot replaces the oldest"),
        text("timezone", "the time zone of the schedule"),
        flag(
            "fordisplay",
            "whether users can see the policy; if false, the policy takes no snapshots",
            ROOT_ADMIN_ONLY,
        ),
        objects(
            "zone",
            "the zone of the volume, if zoneids named the zone",
            (text("id", "the zone"), text("name", "the name of the zone")),
        ),
        TAGS,
        constant("hasannotations", False, "snapshot policies cannot be annotated"),
    ),
)


def create_policy(call: Call) -> Mapping[str, Any]:
    """Create a snapshot policy with the given tags, and return the policy."""
    arguments = call.arguments
    requested = NewPolicy(
        arguments["volumeid"],
        Interval(arguments["intervaltype"]),
        arguments["schedule"],
        arguments["timezone"],
        arguments["maxsnaps"],
        call.flag("fordisplay", default=True),
        arguments.get("zoneids", ()),
    )
    policy = service.create_policy(call.connection, call.system, call.caller, requested)
    if arguments.get("tags"):
        create_tags(call.connection, call.caller, SNAPSHOT_POLICY, [policy], arguments["tags"], None)
    return store.read_policy(call.connection, policy.id)


def list_policies(call: Call) -> Page:
    """Return the snapshot policies of volumes.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    return store.list_policies(call.connection, visible(call), call.arguments, paging(call))


def update_policy(call: Call) -> JobTicket:
    """Show a snapshot policy to users, or hide it. A hidden policy takes no snapshots."""
    return service.update_policy(
        call.connection, call.caller, call.arguments["id"], display=call.arguments.get("fordisplay")
    )


def delete_policies(call: Call) -> None:
    """Delete one or several snapshot policies."""
    refs = call.arguments.get("ids") or (call.arguments["id"],)
    service.delete_policies(call.connection, call.caller, tuple({ref.id: ref for ref in refs}.values()))


FOR_DISPLAY = boolean(
    "fordisplay",
    "whether users can see the policy; a hidden policy creates no snapshots; initial value: true",
    roles=ROOT_ADMIN_ONLY,
)

COMMANDS: tuple[Command, ...] = (
    Command(
        name="createSnapshotPolicy",
        description=(
            "Creates a policy that takes snapshots of a volume at regular times and keeps the newest ones. A "
            "policy of the same volume with the same intervaltype is replaced"
        ),
        handler=create_policy,
        shape=Shape.OBJECT,
        response=POLICY,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("volumeid", Entity.VOLUME, "the volume; it must be attached to a VM", required=True),
            string(
                "intervaltype",
                "how often the policy takes snapshots: HOURLY, DAILY, WEEKLY or MONTHLY",
                required=True,
                choices=tuple(one.value for one in Interval),
            ),
            string(
                "schedule",
                "; ".join(f"{interval.value}: {form}" for interval, (_, form) in FORMS.items()),
                required=True,
            ),
            string("timezone", "the time zone of the schedule", required=True, rule=TIME_ZONE),
            integer(
                "maxsnaps",
                "the number of snapshots that are kept; older snapshots of the policy are deleted",
                required=True,
                minimum=1,
            ),
            mapping("tags", "the tags of the policy: tags[0].key, tags[0].value"),
            uuids("zoneids", Entity.ZONE, ONLY_ZONE_OF_VOLUME),
            FOR_DISPLAY,
        ),
        unsupported={
            "storageids": SNAPSHOTS_IN_VOLUMES,
            "usestoragereplication": SNAPSHOTS_IN_VOLUMES,
        },
    ),
    Command(
        name="listSnapshotPolicies",
        description="Lists policies that take snapshots of volumes",
        handler=list_policies,
        shape=Shape.LIST,
        response=POLICY,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.SNAPSHOT_POLICY, "only this policy"),
            uuid("volumeid", Entity.VOLUME, "only policies of this volume"),
            boolean(
                "fordisplay",
                "true: only policies that users can see; false: only hidden policies",
                roles=ROOT_ADMIN_ONLY,
            ),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
    ),
    Command(
        name="updateSnapshotPolicy",
        description="Shows a policy to users, or hides it and stops its snapshots",
        handler=update_policy,
        shape=Shape.JOB,
        response=POLICY,
        roles=EVERY_ROLE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(uuid("id", Entity.SNAPSHOT_POLICY, "the policy", required=True), FOR_DISPLAY),
        unsupported={"customid": NO_CUSTOM_IDS},
    ),
    Command(
        name="deleteSnapshotPolicies",
        description="Deletes policies that take snapshots; the snapshots stay",
        handler=delete_policies,
        shape=Shape.SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", Entity.SNAPSHOT_POLICY, "the policy"),
            uuids("ids", Entity.SNAPSHOT_POLICY, "the policies"),
        ),
        rules=(ExactlyOne(("id", "ids")),),
    ),
)
