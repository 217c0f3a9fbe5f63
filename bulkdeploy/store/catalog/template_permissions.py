"""The accounts and projects with which a template or ISO is shared."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.store.tables.accounts import accounts, domains, projects
from bulkdeploy.store.tables.offerings import template_permissions, templates


def read_sharing(connection: Connection, template: EntityRef) -> Mapping[str, Any]:
    """Return the response fields that describe which accounts and projects may use a template.

    The fields are the template's id, domain and ``ispublic``, the names of accounts and the ids of projects.
    """
    owned = (
        select(templates.c.is_public, domains.c.uuid)
        .join(accounts, accounts.c.id == templates.c.account_id)
        .join(domains, domains.c.id == accounts.c.domain_id)
        .where(templates.c.id == template.id)
    )
    is_public, domain = connection.execute(owned).one()
    shared = (
        select(accounts.c.name, projects.c.uuid)
        .join(template_permissions, template_permissions.c.account_id == accounts.c.id)
        .outerjoin(projects, projects.c.account_id == accounts.c.id)
        .where(template_permissions.c.template_id == template.id, accounts.c.removed.is_(None))
        .order_by(accounts.c.name, accounts.c.id)
    )
    rows = connection.execute(shared).all()
    return {
        "id": template.uuid,
        "ispublic": is_public,
        "domainid": domain,
        "account": [name for name, project in rows if project is None],
        "projectids": [project for _, project in rows if project is not None],
    }


def owner_of(connection: Connection, template_id: int) -> int:
    """Return the internal id of the account that owns a template."""
    return int(connection.execute(select(templates.c.account_id).where(templates.c.id == template_id)).scalar_one())
