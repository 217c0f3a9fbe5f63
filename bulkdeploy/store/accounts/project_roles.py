"""Rows of project roles: the list query and inserts. ``store.accounts.roles`` updates and deletes them."""

from typing import Any

from sqlalchemy import Connection, Select, func, select

from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, filtered, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.rows.live_rows import insert_row
from bulkdeploy.store.tables.accounts import project_accounts, projects, roles

MEMBERS = project_accounts.c.role_id
"""The column by which members of a project refer to their role."""

FILTERS: Filters = {
    "projectroleid": by_id(roles.c.id),
    "name": same_text(roles.c.name),
    "keyword": keyword(roles.c.name, roles.c.description),
}


def list_project_roles(connection: Connection, project_id: int, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of the roles of a project, by id."""
    query = _query().where(roles.c.project_id == project_id, roles.c.removed.is_(None)).order_by(roles.c.id)
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)


def read_project_role(connection: Connection, role_id: int) -> dict[str, Any]:
    """Return one role of a project with the same fields as in lists."""
    return dict(connection.execute(_query().where(roles.c.id == role_id)).mappings().one())


def insert_project_role(connection: Connection, project_id: int, name: str, description: str | None) -> EntityRef:
    """Create a role without rules in a locked project."""
    # The type of the role has no effect: rules of projects only restrict what the role of the account allows.
    values = {
        "name": name,
        "description": description,
        "project_id": project_id,
        "role_type": RoleType.USER.value,
    }
    return insert_row(connection, Entity.PROJECT_ROLE, values)


def is_name_taken(connection: Connection, project_id: int, name: str) -> bool:
    """Return whether a locked project has a role of this name, in any case."""
    query = select(roles.c.id).where(
        roles.c.project_id == project_id, same_text(roles.c.name)(name), roles.c.removed.is_(None)
    )
    return connection.execute(query.limit(1)).first() is not None


def count_project_roles(connection: Connection, project_id: int) -> int:
    """Return the number of roles of a locked project."""
    query = select(func.count()).where(roles.c.project_id == project_id, roles.c.removed.is_(None))
    return connection.execute(query).scalar_one()


def _query() -> Select[Any]:
    role = roles.c
    return select(
        role.uuid.label("id"),
        role.name,
        role.description,
        role.is_public.label("ispublic"),
        projects.c.uuid.label("projectid"),
    ).join(projects, projects.c.id == role.project_id)
