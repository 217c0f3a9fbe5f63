"""Whose things are, in a form that rows and entries, which may name nobody, are compared in."""

from collections.abc import Hashable, Mapping
from typing import Any

from bulkdeploy.store.database.default_rows import ADMIN_USERNAME, ROOT_DOMAIN_ID

ADMIN = (ROOT_DOMAIN_ID, ADMIN_USERNAME)


def owner_key(values: Mapping[str, Any]) -> Hashable:
    """The same for equal owners, references as internal ids; None: the default admin, which need not be named.

    A domain without an account says nothing of whose something is.
    """
    account = values.get("account")
    whose = None if account is None else (values.get("domainid"), account.lower())
    return None if whose == ADMIN else whose


def owned_key(values: Mapping[str, Any]) -> Hashable:
    """What makes two things of owners the same: whose they are, and their name to the letter."""
    return owner_key(values), values["name"]
