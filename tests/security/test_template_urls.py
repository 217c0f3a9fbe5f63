"""What users may register, and what they and administrators read again of it."""

import pytest

from bulkdeploy.domain.urls import redact_url
from tests.security.test_fetching import NOT_PUBLIC
from tests.support.api.async_calls import refusal
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, USER, World

KINDS = {"Template": {"format": "QCOW2", "hypervisor": "KVM"}, "Iso": {}}


@pytest.mark.parametrize("word", KINDS)
def test_a_url_of_an_address_that_is_not_public_is_not_registered(owned_world: World, word: str) -> None:
    """By nobody, in no spelling, by no scheme; 431, and nothing is there afterwards."""
    world = owned_world
    zone = world.id_of("zones", "small")
    urls = [f"http://{host}/image" for host in (*NOT_PUBLIC, "localhost")]
    urls += ["http://images.example/a\r\nX", "http://images.example/a\tb", "\x01http://images.example/a"]
    urls += ["ftp://127.0.0.1/image", "ftp://images.example/image", "gopher://127.0.0.1/", "file:///etc/passwd"]
    for by in (USER, DOMAIN_ADMIN):
        for url in urls:
            given = {"name": "inside", "displaytext": "inside", "zoneid": zone, "url": url, **KINDS[word]}
            failed = refusal(world, f"register{word}", by, **given)
            assert (failed.status, "url" in failed.errortext) == (431, True), url
    assert world.scalar("SELECT count(*) FROM templates WHERE name = 'inside'") == 0


@pytest.mark.parametrize("word", KINDS)
def test_credentials_of_a_url_are_not_shown(owned_world: World, word: str) -> None:
    """Neither to a root admin in lists nor to the caller in errors."""
    world = owned_world
    zone = world.id_of("zones", "small")
    url = "https://bob:s3cr3t@images.example/disk?X-Amz-Signature=s3cr3t&part=1"
    given = {"name": "guarded", "displaytext": "guarded", "zoneid": zone, "url": url, **KINDS[word]}
    world.client(USER).call(f"register{word}", **given)
    filtered = {f"{word.lower()}filter": "all"}
    (row,) = world.rows(f"list{word}s", ADMIN, name="guarded", **filtered)
    assert row["url"] == "https://***@images.example/disk?X-Amz-Signature=***&part=1"
    for wrong in ("http://bob:s3cr3t@127.0.0.1/", "ftp://bob:s3cr3t@x/", "http://127.0.0.1/?token=s3cr3t"):
        assert "s3cr3t" not in refusal(world, f"register{word}", USER, **{**given, "url": wrong}).errortext
    assert "s3cr3t" not in refusal(world, f"register{word}", USER, **{**given, "url": url + "a" * 3000}).errortext


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://images.example/a?part=1#x", "https://images.example/a?part=1#x"),
        ("https://token@images.example/a", "https://***@images.example/a"),
        ("https://a@b:c@images.example/a", "https://***@images.example/a"),
        ("https://images.example/a?sig=abc&se=2027", "https://images.example/a?sig=***&se=2027"),
        ("https://images.example/a?ACCESS_TOKEN=abc", "https://images.example/a?ACCESS_TOKEN=***"),
        ("qemu+ssh://root@kvm1/system?keyfile=/etc/k", "qemu+ssh://root@kvm1/system?keyfile=/etc/k"),
        ("qemu+ssh://root:abc@kvm1/system", "qemu+ssh://***@kvm1/system"),
        ("cifs://nas/share?user=u&password=p", "cifs://nas/share?user=u&password=***"),
        ("http://[::1", "***"),
    ],
)
def test_urls_are_shown_without_credentials(url: str, shown: str) -> None:
    """Users, passwords, tokens and signatures are left out; the rest stays."""
    assert redact_url(url) == shown
