"""Who calls in these tests, and what a refusal is."""

import pytest

from tests.support.api.api_client import ApiClient, ApiFailure

ACME = ("acme-api-key-000000000000000000000000001", "acme-secret-key-0000000000000000000001")
CUSTOMERS_ADMIN = ("customers-admin-api-key-0000000000000001", "customers-admin-secret-key-000000000001")
"""Keys of users in the small zone: a plain user, and the admin of a domain above it."""


def refused(client: ApiClient, command: str, **parameters: object) -> ApiFailure:
    """The error that a call answers; a call that succeeds fails the test."""
    with pytest.raises(ApiFailure) as caught:
        client.call(command, **parameters)
    return caught.value
