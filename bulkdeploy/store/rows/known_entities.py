"""The visibility of entities to callers other than root admins, as conditions on rows.

Entities that a caller may not see are treated as if they did not exist. Entities that an account owns are visible
to the account, to members of the project that owns them, and to admins of the owner's domain and of the domains
above it. Entities that are restricted to domains are visible to the users of these domains. Zones, roles and other
entities of the whole cloud are visible to all: their uuids cannot be guessed, and roles decide who may list them.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Table,
    Text,
    and_,
    bindparam,
    exists,
    func,
    literal,
    or_,
    select,
    true,
)

from bulkdeploy.domain.accounts.accounts import Caller, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.rows.filters import Condition
from bulkdeploy.store.tables.accounts import (
    accounts,
    domains,
    project_accounts,
    project_invitations,
    projects,
    role_rules,
    roles,
    users,
)
from bulkdeploy.store.tables.groups import affinity_groups, security_group_rules, security_groups
from bulkdeploy.store.tables.networks import network_permissions, networks, nic_secondary_ips, nics
from bulkdeploy.store.tables.offerings import template_permissions, templates
from bulkdeploy.store.tables.topology import dedicated_resources, zones
from bulkdeploy.store.tables.virtual_machines import virtual_machines

ACCOUNT = bindparam("known_to_account", type_=BigInteger)
LINEAGE = bindparam("known_to_lineage", type_=Text)

Known: TypeAlias = Callable[[bool], Condition]
"""The condition of one kind; for an admin, or for a user."""


def parameters_of(caller: Caller) -> dict[str, Any]:
    """Return the SQL parameters of the conditions for a caller."""
    return {ACCOUNT.key: caller.owner.account_id, LINEAGE.key: caller.owner.lineage}


def is_admin(caller: Caller) -> bool:
    """Return whether the caller's role covers more than its account and its projects."""
    return caller.role_type is not RoleType.USER


def known(kind: Entity, table: Table, *, admin: bool) -> Condition:
    """Return the SQL condition for the rows of ``table`` that a domain admin (``admin``) or a user may see."""
    if kind in CONDITIONS:
        return CONDITIONS[kind](admin)
    if "account_id" in table.c:
        return owned(table.c.account_id, admin)
    if "domain_ids" in table.c:
        return _kept_to(table.c.domain_ids, admin)
    return true()


def knows_owner(connection: Connection, caller: Caller, account_id: int) -> bool:
    """Return whether the caller may see objects of this account. The check is one statement in every case."""
    requested = select(owned(literal(account_id, BigInteger), is_admin(caller)))
    return bool(connection.execute(requested, parameters_of(caller)).scalar())


def owned(account_id: ColumnElement[Any], admin: bool) -> Condition:
    """Return the condition that the caller may see the objects of this account.

    These are the objects of the caller's own account and projects, and for an ``admin`` also those of all accounts
    below the caller's domain. ``parameters_of`` returns the parameters of the condition.
    """
    owner, home = accounts.alias(), domains.alias()
    membership = (
        select(1)
        .select_from(projects.join(project_accounts, project_accounts.c.project_id == projects.c.id))
        .where(
            projects.c.account_id == owner.c.id,
            projects.c.removed.is_(None),
            project_accounts.c.account_id == ACCOUNT,
        )
    )
    mine = [owner.c.id == ACCOUNT, exists(membership)]
    if admin:
        mine.append(home.c.lineage.startswith(LINEAGE))
    joined = owner.join(home, home.c.id == owner.c.domain_id)
    return exists(select(1).select_from(joined).where(owner.c.id == account_id, or_(*mine)))


def _domain(domain_id: ColumnElement[Any], admin: bool, *, above: Condition | None = None) -> Condition:
    """Return the condition that a domain is the caller's.

    Admins also match its subdomains. If ``above`` is true, the domains above the caller's match as well.
    """
    home = domains.alias()
    mine = [home.c.lineage == LINEAGE]
    if above is not None:
        mine.append(and_(above, LINEAGE.startswith(home.c.lineage)))
    if admin:
        mine.append(home.c.lineage.startswith(LINEAGE))
    return exists(select(1).where(home.c.id == domain_id, or_(*mine)))


def _kept_to(domain_ids: ColumnElement[Any], admin: bool) -> Condition:
    """Return the SQL condition that an object is restricted to no domain, or to the caller's or one above it.

    Domain admins also see objects that are restricted to subdomains.
    """
    home = domains.alias()
    mine = [LINEAGE.startswith(home.c.lineage)]
    if admin:
        mine.append(home.c.lineage.startswith(LINEAGE))
    return or_(
        func.cardinality(domain_ids) == 0, exists(select(1).where(home.c.id == func.any(domain_ids), or_(*mine)))
    )


def _through(owning: Table, link: Condition) -> Known:
    return lambda admin: exists(select(1).where(link, owned(owning.c.account_id, admin)))


def _template(admin: bool) -> Condition:
    grant = template_permissions.c
    shared = exists(select(1).where(grant.template_id == templates.c.id, grant.account_id == ACCOUNT))
    return or_(templates.c.is_public, shared, owned(templates.c.account_id, admin))


def _network(admin: bool) -> Condition:
    network = networks.c
    open_below = network.subdomain_access.is_(True)
    of_domain = and_(network.acl_type == "Domain", _domain(network.domain_id, admin, above=open_below))
    permission = network_permissions.c
    permitted = select(1).where(permission.network_id == network.id, owned(permission.account_id, admin))
    return or_(of_domain, owned(network.account_id, admin), exists(permitted))


def _affinity_group(admin: bool) -> Condition:
    group = affinity_groups.c
    of_domain = and_(group.account_id.is_(None), _domain(group.domain_id, admin, above=true()))
    return or_(of_domain, owned(group.account_id, admin))


def _project(admin: bool) -> Condition:
    """Return the SQL condition for projects that the caller belongs to, is invited to, or manages as an admin."""
    invitation = project_invitations.c
    invited = select(1).where(invitation.project_id == projects.c.id, invitation.account_id == ACCOUNT)
    return or_(owned(projects.c.account_id, admin), exists(invited))


def _invitation(admin: bool) -> Condition:
    """Return the condition for invitations to the caller's account and to projects that the caller may see."""
    invitation, project = project_invitations.c, projects.alias()
    to_project = select(1).where(project.c.id == invitation.project_id, owned(project.c.account_id, admin))
    return or_(owned(invitation.account_id, admin), exists(to_project))


def _project_role(admin: bool) -> Condition:
    """Return the condition for roles of projects that the caller may see."""
    project = projects.alias()
    return exists(select(1).where(project.c.id == roles.c.project_id, owned(project.c.account_id, admin)))


def _project_rule(admin: bool) -> Condition:
    """Return the condition for rules of roles of projects that the caller may see."""
    return exists(select(1).where(roles.c.id == role_rules.c.role_id, _project_role(admin)))


def _zone(admin: bool) -> Condition:
    """Return the condition for zones that the caller may see.

    Such a zone is public, belongs to the caller's domain, is dedicated to the caller, or contains the caller's VMs.
    """
    zone, dedication, vm = zones.c, dedicated_resources.c, virtual_machines.c
    to_caller = select(1).where(dedication.zone_id == zone.id)
    to_me = to_caller.where(
        or_(dedication.account_id.is_(None), dedication.account_id == ACCOUNT),
        _domain(dedication.domain_id, admin, above=true()),
    )
    reachable = or_(zone.domain_id.is_(None), _domain(zone.domain_id, admin, above=true()))
    has_vms = select(1).where(vm.zone_id == zone.id, vm.account_id == ACCOUNT, vm.removed.is_(None))
    return or_(and_(reachable, or_(~exists(to_caller), exists(to_me))), exists(has_vms))


CONDITIONS: Mapping[Entity, Known] = {
    Entity.ACCOUNT: lambda admin: owned(accounts.c.id, admin),
    Entity.USER: lambda admin: owned(users.c.account_id, admin),
    Entity.DOMAIN: lambda admin: _domain(domains.c.id, admin),
    Entity.PROJECT: _project,
    Entity.PROJECT_INVITATION: _invitation,
    Entity.PROJECT_ROLE: _project_role,
    Entity.PROJECT_ROLE_PERMISSION: _project_rule,
    Entity.ROLE: lambda _: roles.c.is_public,
    Entity.ZONE: _zone,
    Entity.TEMPLATE: _template,
    Entity.ISO: _template,
    Entity.NETWORK: _network,
    Entity.AFFINITY_GROUP: _affinity_group,
    Entity.NIC: _through(virtual_machines, virtual_machines.c.id == nics.c.vm_id),
    Entity.SECONDARY_IP: _through(
        virtual_machines,
        and_(nics.c.id == nic_secondary_ips.c.nic_id, virtual_machines.c.id == nics.c.vm_id),
    ),
    Entity.SECURITY_GROUP_RULE: _through(
        security_groups, security_groups.c.id == security_group_rules.c.security_group_id
    ),
}
