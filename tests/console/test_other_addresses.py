"""Addresses at which people look for the console: the root, and the address of CloudStack's own UI."""

import pytest
import requests

from tests.support.runs.waiting import PATIENCE_S


@pytest.mark.parametrize("path", ["/", "/client", "/client/"])
def test_other_addresses_lead_to_the_console(console_url: str, path: str) -> None:
    """The redirection is relative, so that a proxy may serve everything below a path of its own."""
    answer = requests.get(f"{console_url}{path}", timeout=PATIENCE_S, allow_redirects=False)
    assert answer.status_code == 302
    assert not answer.headers["Location"].startswith("/")
    followed = requests.get(f"{console_url}{path}", timeout=PATIENCE_S)
    assert (followed.status_code, followed.url) == (200, f"{console_url}/console/sign-in")
