"""Keys that identify the owner of an object, for comparing rows with entries of zone files."""

from collections.abc import Hashable, Mapping
from typing import Any

from bulkdeploy.store.database.default_rows import ADMIN_USERNAME, ROOT_DOMAIN_ID

ADMIN = (ROOT_DOMAIN_ID, ADMIN_USERNAME)


def owner_key(values: Mapping[str, Any]) -> Hashable:
    """Return a key that is equal for equal owners. Returns None for the default admin, which is the default owner.

    The parameters contain internal ids. A domain without an account names no owner.
    """
    account = values.get("account")
    whose = None if account is None else (values.get("domainid"), account.lower())
    return None if whose == ADMIN else whose


def owned_key(values: Mapping[str, Any]) -> Hashable:
    """Return the key by which objects of owners are equal: the owner, and the name to the letter."""
    return owner_key(values), values["name"]
