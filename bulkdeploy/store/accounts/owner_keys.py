"""Keys that identify the owner of an object, for comparing rows with entries of zone files."""

from collections.abc import Hashable, Mapping
from typing import Any

from bulkdeploy.store.database.default_rows import ADMIN_USERNAME, ROOT_DOMAIN_ID

ADMIN = (ROOT_DOMAIN_ID, ADMIN_USERNAME)


def owner_key(values: Mapping[str, Any]) -> Hashable:
    """Return a key that is equal for equal owners. Returns None for the default admin, which is the default owner.

    ``values`` may contain an account's name and the internal id of its domain. A domain without an account
    identifies no owner, so None is returned for it, too.
    """
    account = values.get("account")
    whose = None if account is None else (values.get("domainid"), account.lower())
    return None if whose == ADMIN else whose


def owned_key(values: Mapping[str, Any]) -> Hashable:
    """Return the key that identifies an owned object: its owner and its exact name."""
    return owner_key(values), values["name"]
