"""Fixtures of the tests that log in."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from bulkdeploy.wiring.cipher import FernetCipher
from tests.support.api.accounts import TestUser, add_user
from tests.support.api.session_client import PASSWORD, Browser


@pytest.fixture
def browser(api_url: str) -> Iterator[Browser]:
    """A browser without cookies."""
    browser = Browser(api_url)
    yield browser
    browser.http.close()


@pytest.fixture
def ann(engine: Engine, cipher: FernetCipher) -> TestUser:
    """A user with a password in the ROOT domain."""
    return add_user(engine, cipher, "ann", password=PASSWORD)
