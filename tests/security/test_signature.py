"""Signatures: the published vector, what real clients send, and what must be refused."""

import base64
import hashlib
import hmac
from typing import Any
from urllib.parse import quote

import pytest
from cs import CloudStack
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.security.signature import JAVA, LIBCLOUD, PYTHON, canonical, sign, verify

API_KEY = "plgWJfZK4gyS3mOMTVmjUVg-X-jlWlnfaUJ9GAbBbf9EdM-kAYMmAiLqzzq1ElZLYq_u38zCm0bewzGUdP66mg"
SECRET = "VDaACYb0LV9eNjTetIOElcVQkvJck_J_QljX_FcHRj87ZKiy0z0ty0ZsYBkoXkY9b7eq1EhwJaw7FF3akA3KBQ"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
NAMES = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="&="), min_size=1, max_size=12
)
PARAMETERS = st.dictionaries(NAMES.filter(lambda name: name.lower() != "signature"), TEXTS, max_size=8)


def test_published_vector() -> None:
    """The example of CloudStack's documentation gives the signature printed there."""
    parameters = {"command": "listUsers", "response": "json", "apikey": API_KEY}
    assert sign(parameters, SECRET) == "TTpdDq/7j/J58XCRHomKoQXEQds="


def test_canonical_form_by_hand() -> None:
    """Names sort as written, capitals first; values are encoded, and everything is lower-cased."""
    parameters = {"b": "x Y*z", "Zone": "a/b", "apiKey": "K", "signature": "left out", "SIGNATURE": "as well"}
    assert canonical(parameters) == "zone=a%2fb&apikey=k&b=x%20y*z"


@pytest.mark.parametrize(("bare", "expected"), [(JAVA, "%7e%5b%5d"), (PYTHON, "~%5b%5d"), (LIBCLOUD, "~[]")])
def test_characters_clients_disagree_about(bare: str, expected: str) -> None:
    """Tilde and brackets are encoded as each family of clients does it."""
    assert canonical({"v": "~[]"}, bare=bare) == f"v={expected}"


@given(PARAMETERS, TEXTS, st.sampled_from([JAVA, PYTHON, LIBCLOUD]))
def test_every_client_form_verifies(parameters: dict[str, str], secret: str, bare: str) -> None:
    """Whatever the parameters hold, each client's way of encoding them is accepted."""
    assert verify(parameters, secret, sign(parameters, secret, bare=bare))


@given(PARAMETERS, st.sampled_from([" ", "%", "a", "é", "~", "]", "&x=y"]), st.data())
def test_changed_parameters_do_not_verify(parameters: dict[str, str], addition: str, data: st.DataObject) -> None:
    """A signature is good for the parameters it was made of and no others."""
    parameters["command"] = "listZones"
    signature = sign(parameters, SECRET)
    name = data.draw(st.sampled_from(sorted(parameters)))
    assert not verify({**parameters, name: parameters[name] + addition}, SECRET, signature)


@pytest.mark.parametrize(
    "signature", ["", "TTpdDq/7j/J58XCRHomKoQXEQds", "ttpddq/7j/j58xcrhomkoqxeqds=", "ÿé\u0000"]
)
def test_near_misses_do_not_verify(signature: str) -> None:
    """An empty, cut, re-cased or non-ASCII signature is refused and breaks nothing."""
    parameters = {"command": "listUsers", "response": "json", "apikey": API_KEY}
    assert not verify(parameters, SECRET, signature)


def test_names_that_imitate_other_parameters() -> None:
    """Names are signed as written, so one that spells out another parameter is refused."""
    signature = sign({"command": "stopVirtualMachine", "id": "1"}, SECRET)
    assert not verify({"command=stopVirtualMachine&id": "1"}, SECRET, signature)


def test_signature_of_the_cs_library() -> None:
    """What the cs library computes for awkward values verifies."""
    client: Any = CloudStack("http://localhost/client/api", API_KEY, SECRET)
    _, parameters = client._prepare_request("listZones", keyword="a~b [c] *ü/+&=%")
    client._sign(parameters)
    assert verify(parameters, SECRET, parameters["signature"])


def test_signature_of_libcloud() -> None:
    """A Libcloud signature, which leaves brackets bare and lower-cases names, verifies."""
    parameters = {"apikey": API_KEY, "command": "listZones", "keyword": "a~b [c]", "response": "json"}
    text = "&".join(f"{name}={quote(value, safe='[]*')}" for name, value in sorted(parameters.items())).lower()
    signature = base64.b64encode(hmac.new(SECRET.encode(), text.encode(), hashlib.sha1).digest()).decode()
    assert verify(parameters, SECRET, signature)
