"""The list query of SSH key pairs, and their rows."""

from sqlalchemy import Connection, select

from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, equal, filtered, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.rows.live_rows import Fields
from bulkdeploy.store.rows.visibility import Visibility, owner_columns, with_owner
from bulkdeploy.store.tables.groups import ssh_key_pairs

FILTERS: Filters = {
    "id": by_id(ssh_key_pairs.c.id),
    "name": same_text(ssh_key_pairs.c.name),
    "keyword": keyword(ssh_key_pairs.c.name, ssh_key_pairs.c.fingerprint),
    "fingerprint": equal(ssh_key_pairs.c.fingerprint),
}

FIELDS: Fields = {"name": ssh_key_pairs.c.name, "publickey": ssh_key_pairs.c.public_key}


def list_ssh_key_pairs(
    connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging
) -> Page:
    """Return one page of key pairs by id."""
    pair = ssh_key_pairs.c
    query = (
        select(
            pair.uuid.label("id"),
            pair.name,
            pair.fingerprint,
            *owner_columns(),
            *annotation_columns(Entity.SSH_KEY_PAIR),
        )
        .select_from(with_owner(ssh_key_pairs, pair.account_id))
        .where(pair.removed.is_(None), visibility.condition())
        .order_by(pair.id)
    )
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)
