"""Parameters that a command does not have: told in the answer, or refused where the setting says so (ADR 17)."""

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest

from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare.binding import Binder
from bulkdeploy.declare.general_parameters import GENERAL
from tests.commands.test_parameters import THEIRS
from tests.support.api.api_client import ApiClient
from tests.support.zones.zone_queries import Zone

SETTING = "api.unknown.parameters.refused"


@pytest.fixture(scope="session")
def template_database(small_zone_database: str) -> str:
    """Tests begin with the small zone."""
    return small_zone_database


@pytest.fixture
def zone(engine: object) -> Zone:
    """The small zone."""
    return Zone(engine)  # type: ignore[arg-type]


@pytest.fixture
def strict(client: ApiClient) -> ApiClient:
    """A client of a service that refuses what it does not know."""
    client.call("updateConfiguration", name=SETTING, value="true")
    return client


def walks(zone: Zone) -> Iterator[tuple[str, dict[str, object]]]:
    """A call of every shape of answer."""
    yield "listZones", {}
    yield "listCapabilities", {}
    yield "getUser", {"userapikey": zone.scalar("SELECT min(api_key) FROM api_keys")}
    yield "createSSHKeyPair", {"name": "desk"}
    yield "deleteSSHKeyPair", {"name": "desk"}
    yield "createAffinityGroup", {"name": "apart", "type": "host anti-affinity"}
    yield "bulkDeployVirtualMachine", zone.bulk_parameters(2, dryrun="true")
    yield "bulkDeployVirtualMachine", zone.bulk_parameters(2)


def _warnings(value: Any) -> list[str]:
    """All warnings in an answer, at any depth."""
    if isinstance(value, list):
        return [text for row in value for text in _warnings(row)]
    if not isinstance(value, dict):
        return []
    inner = [text for name, each in value.items() if name != "warning" for text in _warnings(each)]
    return [*([value["warning"]] if "warning" in value else []), *inner]


def test_the_answer_says_what_was_ignored(client: ApiClient, zone: Zone) -> None:
    """In the object answered, in the first of a list; no client has to take another key beside it."""
    for command, given in walks(zone):
        body = client.call(command, **given, diskoferingid="x", **{"detials[0].a": "b"})
        text = f"{command} has no such parameters, they were ignored: diskoferingid, detials[0].a"
        assert _warnings(body) == [text], command
        for rows in body.values():
            if isinstance(rows, list):
                assert (rows[0]["warning"], len(body)) == (text, 2)


def test_nothing_is_said_where_all_is_known(client: ApiClient) -> None:
    """Neither of what the command has nor of what any call may have, in any case."""
    general = dict.fromkeys(GENERAL - {"command", "response", "apikey", "signature", "sessionkey"}, "1")
    sent = {**{name.title(): value for name, value in general.items()}, "pageSize": "5", "Page": "1"}
    for name in ("signatureversion", "expires", "account", "domainid", "projectid"):
        sent.pop(name.title(), None)
    answer = client.get("listZones", **sent)
    assert (answer.status, "warning" in answer.text) == (200, False)
    assert "warning" not in client.get("listZones", keyword="nothing", typo="x").text, "an empty list stays empty"
    assert client.get("listZones", keyword="nothing", typo="x").body == {}


def test_entries_of_what_has_none_are_unknown(client: ApiClient, zone: Zone) -> None:
    """``diskofferingid[0]`` is no spelling of ``diskofferingid``, and no disk is left out without a word."""
    body = client.call(
        "bulkDeployVirtualMachine", **zone.bulk_parameters(1, dryrun="true"), **{"diskofferingid[0]": 1}
    )
    text = "bulkDeployVirtualMachine has no such parameters, they were ignored: diskofferingid[0]"
    assert _warnings(body) == [text]


def test_xml_says_it_too(client: ApiClient) -> None:
    """The same field, whatever the name is made of."""
    text = client.get("listZones", response="xml", **{"<typo>": "x"}).text
    zone = ElementTree.fromstring(text).find("zone")  # noqa: S314 - our own server
    assert zone is not None
    assert zone.findtext("warning") == "listZones has no such parameters, they were ignored: <typo>"


def test_a_setting_has_such_calls_refused(strict: ApiClient, zone: Zone) -> None:
    """By name and with nothing done, in reads and changes, also before a login."""
    for command, given in walks(zone):
        answer = strict.post(command, **given, diskoferingid="x")
        assert (answer.status, answer.body["cserrorcode"]) == (431, 9999)
        assert answer.body["errortext"] == (
            f"Unable to execute API command {command.lower()} due to unknown parameters: diskoferingid"
        )
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 0
    assert strict.request("POST", "/client/api?command=login&response=json&nmae=x", "", {}).status == 431
    assert strict.call("updateConfiguration", name=SETTING, value="false")["configuration"]["value"] == "false"
    assert strict.post("listZones", diskoferingid="x").status == 200


def test_many_and_long_names_are_shortened_in_the_answer(strict: ApiClient) -> None:
    """What strangers send is not sent back at length."""
    answer = strict.post("listZones", **{f"p{number}" + "x" * 500: "" for number in range(50)})
    assert (answer.status, len(answer.text) < 3000) == (431, True)
    assert "and 30 more" in answer.body["errortext"]


def test_whatever_cloudstack_has_is_known() -> None:
    """Its parameters are declared or refused one by one, so none of them is ever called unknown."""
    commands = find_commands()
    for name, theirs in THEIRS.items():
        assert Binder(commands[name]).unknown(dict.fromkeys(theirs, "")) == []


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        ("listZones", {"filter": "id,name"}),
        ("listApis", {"listall": "true"}),
        ("listVirtualMachines", {"listItems": "true", "page": "1", "pagesize": "500"}),
        ("listZones", {"signatureVersion": "3", "expires": "2999-01-31T12:00:00+0000"}),
        ("listServiceOfferings", {"signatureversion": "3", "expires": "2999-01-31T12:00:00Z"}),
        ("listZones", {"_": "1700000000000", "showIcon": "true", "listall": "true"}),
        ("listCapabilities", {"projectid": "-1"}),
    ],
    ids=["cmk", "cmk-sync", "ansible", "cs", "cloudstack-go", "browsers", "console"],
)
def test_what_clients_send_along_is_no_typing_error(strict: ApiClient, command: str, sent: dict[str, str]) -> None:
    """Unmodified clients go on working where others are refused."""
    assert strict.get(command, **sent).status == 200
