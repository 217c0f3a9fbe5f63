"""Wrong passwords of strangers lock nobody out."""

from collections.abc import Callable
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit

import pytest

from tests.conftest import ADMIN_PASSWORD

Login = Callable[[str, str], int]


@pytest.fixture
def login(api_url: str) -> Login:
    """Try a password of the user admin from an address of this machine; the answer's status."""
    server = urlsplit(api_url)

    def attempt(address: str, password: str) -> int:
        connection = HTTPConnection(server.hostname or "", server.port, source_address=(address, 0))
        try:
            form = urlencode({"command": "login", "response": "json", "username": "admin", "password": password})
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", "/client/api", form, headers)
            return connection.getresponse().status
        finally:
            connection.close()

    return attempt


def test_strangers_do_not_delay_an_administrator(login: Login) -> None:
    """After 154 wrong passwords from three addresses, the correct one from a fourth address is accepted at once."""
    statuses = [login(f"127.0.0.{2 + number % 3}", "wrong") for number in range(154)]
    assert 429 in statuses
    assert login("127.0.0.5", ADMIN_PASSWORD) == 200


def test_an_address_without_a_login_waits_even_with_the_correct_password(login: Login) -> None:
    """A guesser does not learn during a delay that a password is the correct one."""
    while login("127.0.0.2", "wrong") != 429:
        pass
    assert login("127.0.0.2", ADMIN_PASSWORD) == 429


def test_a_known_address_is_never_delayed_with_the_correct_password(login: Login) -> None:
    """From an address of an earlier login, only wrong passwords are delayed, however many came before."""
    assert login("127.0.0.6", ADMIN_PASSWORD) == 200
    assert 429 in (login("127.0.0.6", "wrong") for _ in range(100))  # ends with the first that is delayed
    assert login("127.0.0.6", ADMIN_PASSWORD) == 200
