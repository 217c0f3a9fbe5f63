"""Operations on resource tags: create and delete."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.jobs.done_jobs import done_with_success
from bulkdeploy.services.ownership import require_access
from bulkdeploy.store import resource_tags
from bulkdeploy.store.jobs.events import record_event

COMMANDS = "org.apache.cloudstack.api.command.user.tag"

TAGGABLE: Mapping[str, Entity] = {
    resource_tags.USER_VM: Entity.VIRTUAL_MACHINE,
    resource_tags.TEMPLATE: Entity.TEMPLATE,
    resource_tags.ISO: Entity.ISO,
    resource_tags.VOLUME: Entity.VOLUME,
    resource_tags.VM_SNAPSHOT: Entity.VM_SNAPSHOT,
    resource_tags.SNAPSHOT: Entity.SNAPSHOT,
    resource_tags.SNAPSHOT_POLICY: Entity.SNAPSHOT_POLICY,
    resource_tags.NETWORK: Entity.NETWORK,
    resource_tags.SECURITY_GROUP: Entity.SECURITY_GROUP,
    resource_tags.ZONE: Entity.ZONE,
}
LONGEST = 255


def create_tags(
    connection: Connection,
    caller: Caller,
    resource_type: str,
    refs: Sequence[EntityRef],
    pairs: Sequence[Mapping[str, str]],
    customer: str | None,
) -> JobTicket:
    """Add all tags to all resources, or none of them if a resource already has a tag with the same key.

    A tag belongs to the owner of its resource.

    Raises:
        InvalidParameter: there is no resource of this type with an id, a tag has no key or value, or a resource
            already has a tag with this key.
        PermissionDenied: the caller may not access one of the resources; only root admins may access zones.
    """
    tags = tag_values(pairs)
    owners = _owners(connection, caller, resource_type, refs)
    taken = resource_tags.insert_tags(connection, resource_type, owners, tags, customer)
    if taken is not None:
        raise InvalidParameter("tags", taken.key, f"{resource_type} {taken.uuid} has a tag with this key already")
    text = f"tagged {len(refs)} {resource_type}(s) with {', '.join(tags)}"
    record_event(connection, caller, EventType.TAGS_CREATE, text)
    return done_with_success(connection, caller, f"{COMMANDS}.CreateTagsCmd")


def delete_tags(
    connection: Connection,
    caller: Caller,
    resource_type: str,
    refs: Sequence[EntityRef],
    pairs: Sequence[Mapping[str, str]] | None,
) -> JobTicket:
    """Delete tags of resources: the tags with the given keys (and values, if given), or all tags.

    Raises:
        InvalidParameter: there is no resource of this type with an id, or no tag matches.
        PermissionDenied: the caller may not access one of the resources; only root admins may access zones.
    """
    wanted = None if pairs is None else [_pair(entry, needs_value=False) for entry in pairs]
    _owners(connection, caller, resource_type, refs)
    gone = resource_tags.delete_tags(connection, resource_type, [ref.id for ref in refs], wanted)
    if gone == 0:
        raise InvalidParameter(
            "resourceids",
            ",".join(str(ref.uuid) for ref in refs)[:LONGEST],
            "Unable to find any tags which conform to specified delete parameters.",
        )
    record_event(
        connection, caller, EventType.TAGS_DELETE, f"took {gone} tag(s) off {len(refs)} {resource_type}(s)"
    )
    return done_with_success(connection, caller, f"{COMMANDS}.DeleteTagsCmd")


def tag_values(pairs: Sequence[Mapping[str, str]], parameter: str = "tags") -> dict[str, str]:
    """Return the values of tags by key. ``pairs`` is the map parameter of a call.

    Raises:
        InvalidParameter: a key is given twice, a key or a value is missing or too long.
    """
    tags: dict[str, str] = {}
    for entry in pairs:
        key, value = _pair(entry, needs_value=True, parameter=parameter)
        if key in tags:
            raise InvalidParameter(parameter, key, "each key must be given once")
        tags[key] = value or ""
    return tags


def _pair(entry: Mapping[str, str], *, needs_value: bool, parameter: str = "tags") -> tuple[str, str | None]:
    """Return the key and the value of one entry of a map of tags."""
    key, value = entry.get("key"), entry.get("value")
    if set(entry) - {"key", "value"} or not key or (needs_value and not value):
        raise InvalidParameter(
            parameter,
            str(dict(entry))[:LONGEST],
            f"each entry must have a key and a value: {parameter}[0].key, {parameter}[0].value",
        )
    for text in (key, value or ""):
        if len(text) > LONGEST:
            rule = f"keys and values have at most {LONGEST} characters"
            raise InvalidParameter(parameter, f"{text[:40]}...", rule)
    return key, value


def _owners(
    connection: Connection, caller: Caller, resource_type: str, refs: Sequence[EntityRef]
) -> dict[int, int]:
    """Return the internal ids of the accounts that own resources, if the caller may access all of them."""
    for ref in refs:
        if ref.entity is not TAGGABLE[resource_type] or ref.removed:
            raise InvalidParameter("resourceids", str(ref.uuid), f"there is no {resource_type} with this id")
    if resource_type == resource_tags.ZONE:
        if not caller.is_root_admin:
            raise PermissionDenied(f"{caller.username} does not have permission to operate with resource Zone")
        return dict.fromkeys((ref.id for ref in refs), caller.owner.account_id)
    owners = resource_tags.owners_of(connection, resource_type, [ref.id for ref in refs])
    for account_id in sorted(set(owners.values())):
        one = next(ref for ref in refs if owners[ref.id] == account_id)
        require_access(connection, caller, account_id, f"{resource_type} {one.uuid}")
    return owners
