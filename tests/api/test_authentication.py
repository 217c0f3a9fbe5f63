"""Signed requests through the front door: who gets in, and what the others are told."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from cs import CloudStack
from libcloud.common.types import InvalidCredsError
from libcloud.compute.drivers.cloudstack import CloudStackNodeDriver
from sqlalchemy import Engine, update

from bulkdeploy.security.signature import JAVA, LIBCLOUD, PYTHON, sign
from bulkdeploy.store.tables.accounts import accounts, api_keys, users
from bulkdeploy.wiring.cipher import FernetCipher
from tests.support.api.accounts import READ_ONLY_ADMIN_ROLE, USER_ROLE, TestUser, add_role, add_user
from tests.support.api.api_client import Answer, ApiClient

REFUSAL = "unable to verify user credentials and/or request signature"


def send(client: ApiClient, parameters: dict[str, str], method: str = "GET") -> Answer:
    """Send exactly these parameters."""
    encoded = urlencode(parameters, quote_via=quote)
    if method == "GET":
        return client.request("GET", f"/client/api?{encoded}")
    return client.request("POST", "/client/api", encoded, {"Content-Type": "application/x-www-form-urlencoded"})


def signed(client: ApiClient, *, bare: str = PYTHON, **parameters: str) -> dict[str, str]:
    """Parameters with the client's key, signed last so that ``parameters`` may override anything."""
    values = {"response": "json", "apiKey": client.api_key, "command": "listCapabilities", **parameters}
    return {**values, "signature": sign(values, client.secret_key, bare=bare)}


def acting_as(client: ApiClient, user: TestUser) -> ApiClient:
    """A client of the same server with another user's keys."""
    return ApiClient(client.url, user.api_key, user.secret_key)


def is_refused(answer: Answer) -> bool:
    """Whether an answer is the one refusal that all wrong credentials get."""
    body = answer.body
    return (
        answer.status == 401
        and body == {"uuidList": [], "errorcode": 401, "errortext": REFUSAL}
        and answer.headers["X-Description"] == REFUSAL
    )


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("bare", [JAVA, PYTHON, LIBCLOUD])
def test_signatures_of_all_clients(client: ApiClient, method: str, bare: str) -> None:
    """Awkward characters are signed differently by different clients, and all of them get in."""
    assert send(client, signed(client, bare=bare, keyword="~ [x] *"), method).status == 200


def test_names_of_credentials_in_any_case(client: ApiClient) -> None:
    """Libcloud writes ``apikey``, others ``apiKey``: the names of credentials match in any case."""
    values = {"response": "json", "APIKEY": client.api_key, "command": "listCapabilities"}
    assert send(client, {**values, "Signature": sign(values, client.secret_key)}).status == 200


def test_query_and_form_are_one_request(client: ApiClient) -> None:
    """A request may be spread over its query string and its form."""
    parameters = signed(client)
    query = urlencode({"command": parameters.pop("command")})
    form = urlencode(parameters, quote_via=quote)
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    assert client.request("POST", f"/client/api?{query}", form, headers).status == 200


@pytest.mark.parametrize(
    "spoil",
    [
        lambda p: p.pop("signature"),
        lambda p: p.pop("apiKey"),
        lambda p: p.update(signature=""),
        lambda p: p.update(signature=p["signature"][::-1]),
        lambda p: p.update(apiKey="unknown"),
        lambda p: p.update(apiKey="nul\x00key"),
        lambda p: p.update(apiKey="é" * 5000),
        lambda p: p.update(added="1"),
        lambda p: p.update(command="listApis"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_wrong_credentials_get_one_answer(client: ApiClient, spoil: Any, method: str) -> None:
    """Whatever is wrong with key or signature, the refusal is the same and tells nothing."""
    parameters = signed(client)
    spoil(parameters)
    assert is_refused(send(client, parameters, method))


def test_unknown_command_with_a_key(client: ApiClient) -> None:
    """A signed call of a command that does not exist gets the code of wrong credentials, and is told the reason.

    Clients take 401 for that, as CloudStack answers it; who reads "unable to verify" would look at the keys.
    """
    answer = send(client, signed(client, command="listzones"))
    text = f"{REFUSAL}: there is no API command listzones"
    assert (answer.status, answer.body) == (401, {"uuidList": [], "errorcode": 401, "errortext": text})
    assert list(answer.json) == ["errorresponse"]


def test_no_command(client: ApiClient) -> None:
    """A request without command gets the same refusal."""
    assert is_refused(client.request("GET", "/client/api?response=json"))
    parameters = signed(client)
    parameters.pop("command")
    assert is_refused(send(client, {**parameters, "signature": sign(parameters, client.secret_key)}))


def moment(**ahead: int) -> str:
    """A time that lies ahead, as the cs library writes it."""
    return (datetime.now(UTC) + timedelta(**ahead)).strftime("%Y-%m-%dT%H:%M:%S+0000")


@pytest.mark.parametrize(
    "expires",
    [
        "2999-01-31T12:00:00+0000",
        "2999-01-31T12:00:00Z",
        "2999-01-31T12:00:00.123Z",
        "2999-01-31T12:00:00+05:30",
        "2999-01-31T12:00:00-0800",
    ],
)
@pytest.mark.parametrize("name", ["signatureVersion", "signatureversion"])
def test_version_3_signatures_in_time(client: ApiClient, expires: str, name: str) -> None:
    """Every form of ``expires`` that clients send is read."""
    assert send(client, signed(client, expires=expires, **{name: "3"})).status == 200
    assert send(client, signed(client, expires=moment(minutes=10), **{name: "3"})).status == 200


@pytest.mark.parametrize(
    "expires", ["2026-01-31T12:00:00Z", "", "tomorrow", "2999-13-31T12:00:00Z", "2999-01-31", "9" * 50]
)
def test_version_3_signatures_too_late(client: ApiClient, expires: str) -> None:
    """A version 3 signature is good only until ``expires``, which must be there and be a time."""
    assert is_refused(send(client, signed(client, expires=expires, signatureVersion="3")))
    assert is_refused(send(client, signed(client, expires=moment(minutes=-1), signatureVersion="3")))
    assert is_refused(send(client, signed(client, signatureVersion="3")))


@pytest.mark.parametrize("version", ["2", "", "03"])
def test_other_versions_do_not_expire(client: ApiClient, version: str) -> None:
    """Without version 3, ``expires`` is signed but means nothing."""
    assert send(client, signed(client, expires=moment(minutes=-1), signatureVersion=version)).status == 200
    assert send(client, signed(client, expires="never")).status == 200


@pytest.mark.parametrize("table", [users, accounts])
@pytest.mark.parametrize("state", ["disabled", "locked"])
def test_disabled_users_and_accounts(
    client: ApiClient, engine: Engine, cipher: FernetCipher, table: Any, state: str
) -> None:
    """Keys work only while both the user and the account are enabled."""
    user = add_user(engine, cipher, "ann")
    assert send(client, signed(acting_as(client, user))).status == 200
    with engine.begin() as connection:
        row = user.user_id if table is users else user.account_id
        connection.execute(update(table).where(table.c.id == row).values(state=state))
    assert is_refused(send(client, signed(acting_as(client, user))))


def test_a_changed_secret_is_never_stale(client: ApiClient, engine: Engine, cipher: FernetCipher) -> None:
    """The moment a secret key is changed, the old one is refused and the new one works."""
    user = add_user(engine, cipher, "ann")
    before = acting_as(client, user)
    assert before.get("listCapabilities").status == 200
    with engine.begin() as connection:
        changed = update(api_keys).where(api_keys.c.user_id == user.user_id)
        connection.execute(changed.values(secret_key_encrypted=cipher.encrypt("new secret")))
    assert is_refused(before.get("listCapabilities"))
    assert ApiClient(client.url, user.api_key, "new secret").get("listCapabilities").status == 200


def test_a_forbidden_command_is_refused_before_the_signature_is_checked(
    client: ApiClient, engine: Engine, cipher: FernetCipher
) -> None:
    """With a good key a command that the role lacks answers 432, even if the signature is wrong."""
    user = acting_as(client, add_user(engine, cipher, "ann"))
    parameters = signed(user, command="bulkDeployVirtualMachine")
    for answer in (send(client, parameters), send(client, {**parameters, "signature": "wrong"})):
        assert (answer.status, list(answer.json)) == (432, ["errorresponse"])
        assert (answer.body["errorcode"], answer.body["cserrorcode"]) == (432, 9999)
        assert answer.body["errortext"].startswith(
            "The API [bulkDeployVirtualMachine] does not exist or is not available for the account Account ["
        )


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        ((("listCap*", "deny"), ("*", "allow")), 432),
        ((("LISTCAPABILITIES", "allow"), ("*", "deny")), 200),
        ((("listApis", "deny"),), 432),
        ((("*Capabilities", "deny"),), 432),
        ((("*", "deny"),), 432),
    ],
)
def test_role_rules(
    client: ApiClient, engine: Engine, cipher: FernetCipher, rules: tuple[tuple[str, str], ...], status: int
) -> None:
    """The first rule that matches decides; a command that no rule matches is denied."""
    role = add_role(engine, "special", "User", rules)
    assert acting_as(client, add_user(engine, cipher, "ann", role_id=role)).get("listCapabilities").status == status


def test_rules_can_open_a_command(client: ApiClient, engine: Engine, cipher: FernetCipher) -> None:
    """A rule of a role may allow a command that the default role of its type does not allow."""
    role = add_role(engine, "deployer", "User", (("bulkDeploy*", "allow"),))
    answer = acting_as(client, add_user(engine, cipher, "ann", role_id=role)).get("bulkDeployVirtualMachine")
    assert (answer.status, answer.body["cserrorcode"]) == (431, 9999)
    assert "missing parameter zoneid" in answer.body["errortext"]


def test_read_only_admins_change_nothing(client: ApiClient, engine: Engine, cipher: FernetCipher) -> None:
    """An admin role with rules is bound by them like any other."""
    reader = acting_as(client, add_user(engine, cipher, "ann", role_id=READ_ONLY_ADMIN_ROLE))
    assert reader.get("listCapabilities").status == 200
    assert reader.get("bulkDeployVirtualMachine").status == 432


@pytest.mark.parametrize("method", ["get", "post"])
def test_the_cs_library(client: ApiClient, method: str) -> None:
    """An unmodified client library calls with version 3 signatures, by GET and by POST."""
    library = CloudStack(f"{client.url}/client/api", client.api_key, client.secret_key, method=method)
    assert library.listCapabilities()["capability"]["cloudstackversion"] == "4.22.1.0"


def libcloud(client: ApiClient, secret_key: str) -> Any:
    """A Libcloud driver for the server; its class has no types."""
    driver: Any = CloudStackNodeDriver
    return driver(client.api_key, secret_key, secure=False, url=f"{client.url}/client/api")


def test_libcloud(client: ApiClient) -> None:
    """Libcloud gets in, and takes a refusal for what it is: its InvalidCredsError, which it makes of 401 alone."""
    answer = libcloud(client, client.secret_key)._sync_request("listCapabilities", {"keyword": "a [b] ~*"})
    assert answer["capability"]["cloudstackversion"] == "4.22.1.0"
    with pytest.raises(InvalidCredsError):
        libcloud(client, "wrong")._sync_request("listCapabilities")


def test_users_see_their_own_apis(client: ApiClient, engine: Engine, cipher: FernetCipher) -> None:
    """ListApis shows a caller exactly what that caller may call."""
    user = acting_as(client, add_user(engine, cipher, "ann", role_id=USER_ROLE))
    names = {api["name"] for api in user.call("listApis")["api"]}
    assert "listCapabilities" in names
    assert "bulkDeployVirtualMachine" not in names
    assert user.get("listApis", name="bulkDeployVirtualMachine").status == 530
