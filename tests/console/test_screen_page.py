"""The page of a VM's screen, and the way to it from the VM's own page."""

import hashlib

import pytest

from bulkdeploy.console.rendering import STATIC
from tests.support.api.console_client import Page, Visitor

NOVNC = STATIC / "novnc-1.7.0"
DIGEST = "d4a9d55ab1a7768eae9ef27f3cc30701bcc157b5b1b49dc9a7cb762527e54b59"
"""Of the folders core and vendor, and of the licences, of @novnc/novnc 1.7.0, as its npm package has them."""


def test_what_is_vendored_is_unchanged() -> None:
    """Each file, by its name and content."""
    digest = hashlib.sha256()
    for file in sorted(path for path in NOVNC.rglob("*") if path.is_file()):
        digest.update(file.relative_to(NOVNC).as_posix().encode() + b"\0" + file.read_bytes())
    assert digest.hexdigest() == DIGEST


def test_the_page_needs_no_session_and_shows_whose_work_it_is(console_url: str) -> None:
    """What opens a screen is its token; all that the page loads is ours or noVNC's, whose licence is linked."""
    anybody = Visitor(console_url)
    answer = anybody.get("vnc")
    assert answer.status_code == 200
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    page = Page(answer.text)
    loaded = [attributes[name] for _, attributes in page.elements for name in ("src", "href") if name in attributes]
    assert "static/novnc-1.7.0/LICENSE" in loaded
    for address in loaded:
        assert anybody.get(address).status_code == 200
    assert anybody.get("static/novnc-1.7.0/core/rfb.js").headers["Content-Type"].startswith("text/javascript")
    anybody.close()


@pytest.mark.parametrize("form", [{"id": "x"}, {}])
def test_without_a_vm_there_is_no_screen(admin: Visitor, form: dict[str, str]) -> None:
    """The API's refusal is shown, and nobody is sent anywhere."""
    answer = admin.send("vnc", form)
    assert answer.status_code == 422
    assert "virtualmachineid" in answer.text
