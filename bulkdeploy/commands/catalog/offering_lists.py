"""Parameters of several offering commands: filters of lists by owner, VM and volume, and domains and zones."""

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.parameters import Parameter, boolean, string, uuid
from bulkdeploy.domain.entities import EVERY_ID, Entity
from bulkdeploy.domain.errors import InvalidCombination
from bulkdeploy.services.ownership import named_account, project_owner, require_access, require_domain
from bulkdeploy.store.catalog.offering_places import Wanted
from bulkdeploy.store.volumes.volume_changes import known_volume, read_vm

FOR_WHOM: tuple[Parameter, ...] = (
    uuid(
        "domainid",
        Entity.DOMAIN,
        "only offerings that are restricted to this domain; with account: the domain of the account; -1: no filter",
        takes_all=True,
    ),
    boolean(
        "isrecursive",
        "with domainid, true: also offerings of the domains below. Without domainid, false: domain admins do "
        "not see offerings of the domains below their own",
    ),
    string("account", "only offerings that this account may use; domainid names the domain of the account"),
    uuid("projectid", Entity.PROJECT, "only offerings that this project may use; -1: no filter"),
    boolean("listall", "accepted but ignored: the list always contains all offerings that the caller may use"),
)


def requested_offerings(call: Call) -> Wanted:
    """Return the selection by the parameters of ``FOR_WHOM``, ``virtualmachineid`` and ``volumeid``.

    Raises:
        InvalidCombination: an account and a project are given.
        InvalidParameter: the account or project does not exist.
        PermissionDenied: the domain, account, project, VM or volume is outside the caller's reach.
    """
    connection, caller = call.connection, call.caller
    domain, account, project = call.ref("domainid"), call.text("account"), call.ref("projectid")
    if domain is not None and domain.id == EVERY_ID:
        return Wanted(own_of=(EVERY_ID, ""))
    lineage = None if domain is None else require_domain(connection, caller, domain)
    if account is not None and project is not None:
        raise InvalidCombination(("account", "projectid"), "account and projectid cannot be given together")
    users: list[str] = []
    if account is not None:
        users.append(named_account(connection, caller, account, domain).lineage)
    if project is not None and project.id != EVERY_ID:
        users.append(project_owner(connection, caller, project.id).lineage)
    zones: list[int] = []
    for name, read in (("virtualmachineid", read_vm), ("volumeid", known_volume)):
        if (ref := call.ref(name)) is not None:
            row = read(connection, ref.id)
            users.append(require_access(connection, caller, row.account_id, f"{name} {ref.uuid}").lineage)
            zones.append(row.zone_id)
    own_of = None if domain is None or lineage is None or account is not None else (domain.id, lineage)
    return Wanted(
        own_of,
        recursive=call.flag("isrecursive"),
        from_below=call.arguments.get("isrecursive") is not False,
        usable_in=tuple(users),
        zone_ids=tuple(zones),
    )


CHANGED_PLACES: tuple[Parameter, ...] = (
    string(
        "domainid",
        "the domains that may use the offering, separated by commas; public: all domains",
        length=4096,
    ),
    string(
        "zoneid",
        "the zones in which the offering is available, separated by commas; all: all zones",
        length=4096,
    ),
)
"""Parameters of commands that change the domains and zones in which an offering can be used."""
