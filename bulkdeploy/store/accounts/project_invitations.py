"""Rows of invitations to projects: the list query, inserts, answers and deletes.

An unanswered invitation expires by its age; no process changes its row.
"""

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Row, case, cast, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.rows.filters import Arguments, Condition, Filters, by_id, filtered, keyword
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.rows.visibility import Visibility
from bulkdeploy.store.tables.accounts import accounts, domains, project_invitations, projects

PENDING, COMPLETED, DECLINED, EXPIRED = "Pending", "Completed", "Declined", "Expired"
STATES = (PENDING, COMPLETED, DECLINED, EXPIRED)


def list_invitations(
    connection: Connection, shown: Visibility | int, arguments: Arguments, paging: Paging, *, timeout_s: int
) -> Page:
    """Return one page of invitations, ordered by id.

    ``shown`` is either the visibility of the invited accounts, or the internal id of the project whose invitations
    are listed. A pending invitation expires after ``timeout_s`` seconds.
    """
    invitation, state = project_invitations.c, _state(timeout_s)
    query = (
        select(
            invitation.uuid.label("id"),
            projects.c.uuid.label("projectid"),
            projects.c.name.label("project"),
            domains.c.uuid.label("domainid"),
            domains.c.name.label("domain"),
            domains.c.path.label("domainpath"),
            accounts.c.name.label("account"),
            state.label("state"),
        )
        .select_from(
            project_invitations.join(projects, projects.c.id == invitation.project_id)
            .join(accounts, accounts.c.id == invitation.account_id)
            .join(domains, domains.c.id == accounts.c.domain_id)
        )
        .where(invitation.project_id == shown if isinstance(shown, int) else shown.condition())
        .order_by(invitation.id)
    )
    return fetch_page(connection, filtered(query, _filters(state), arguments), paging)


def invite(
    connection: Connection, project_id: int, account_id: int, role: str, role_id: int | None, *, timeout_s: int
) -> None:
    """Invite an account to a locked project.

    A pending invitation is not changed. An answered or expired invitation is replaced.
    """
    statement = upsert(project_invitations).values(
        project_id=project_id, account_id=account_id, role=role, role_id=role_id
    )
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["project_id", "account_id"],
            set_={
                "uuid": statement.excluded.uuid,
                "role": role,
                "role_id": role_id,
                "state": PENDING,
                "created": statement.excluded.created,
            },
            where=_state(timeout_s) != PENDING,
        )
    )


def lock_pending(connection: Connection, project_id: int, account_id: int, *, timeout_s: int) -> Row[Any] | None:
    """Lock an account's unanswered invitation to a project, and return its id, role, project role and state.

    Returns None if there is no unanswered invitation. The state may be expired.
    """
    invitation = project_invitations.c
    query = select(invitation.id, invitation.role, invitation.role_id, _state(timeout_s).label("state")).where(
        invitation.project_id == project_id, invitation.account_id == account_id, invitation.state == PENDING
    )
    return connection.execute(query.with_for_update()).first()


def has_pending_invitation(connection: Connection, project_id: int, role_id: int, *, timeout_s: int) -> bool:
    """Return whether an unexpired pending invitation to a locked project contains this project role."""
    invitation = project_invitations.c
    query = select(invitation.id).where(
        invitation.project_id == project_id, invitation.role_id == role_id, _state(timeout_s) == PENDING
    )
    return connection.execute(query.limit(1)).first() is not None


def answer(connection: Connection, invitation_id: int, state: str) -> None:
    """Set the state of a locked invitation."""
    statement = update(project_invitations).where(project_invitations.c.id == invitation_id)
    connection.execute(statement.values(state=state))


def project_of(connection: Connection, invitation_id: int) -> EntityRef | None:
    """Return the project that an invitation is to, or None if the invitation was deleted."""
    query = select(projects.c.id, projects.c.uuid, projects.c.name).join(
        project_invitations, project_invitations.c.project_id == projects.c.id
    )
    row = connection.execute(query.where(project_invitations.c.id == invitation_id)).first()
    return None if row is None else EntityRef(Entity.PROJECT, row.id, row.uuid, row.name)


def delete_invitation(connection: Connection, invitation_id: int) -> bool:
    """Delete an invitation, and return whether it existed."""
    statement = delete(project_invitations).where(project_invitations.c.id == invitation_id)
    return connection.execute(statement).rowcount == 1


def _state(timeout_s: int) -> ColumnElement[str]:
    invitation = project_invitations.c
    late = invitation.created < func.now() - func.make_interval(0, 0, 0, 0, 0, 0, cast(timeout_s, BigInteger))
    return case(((invitation.state == PENDING) & late, EXPIRED), else_=invitation.state)


def _filters(state: ColumnElement[str]) -> Filters:
    def only_active(wanted: object) -> Condition:
        return state == PENDING if wanted else state.is_not(None)

    return {
        "id": by_id(project_invitations.c.id),
        "activeonly": only_active,
        "state": lambda wanted: state == wanted,
        "keyword": keyword(projects.c.name, accounts.c.name),
    }
