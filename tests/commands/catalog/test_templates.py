"""listTemplates and listIsos: whose templates each filter shows."""

import pytest

from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, RIVAL, USER, World

FEATURED = {"Debian 12", "Any hypervisor"}
PUBLIC = FEATURED | {"rival community"}
OF_ACME = {"acme private"}
EVERY = PUBLIC | OF_ACME | {"rival private", "rival shared"}


@pytest.mark.parametrize(
    ("caller", "word", "expected"),
    [
        (USER, "featured", FEATURED),
        (USER, "community", {"rival community"}),
        (USER, "self", OF_ACME),
        (USER, "selfexecutable", OF_ACME),
        (USER, "shared", {"rival shared"}),
        (USER, "sharedexecutable", {"rival shared"}),
        (USER, "executable", PUBLIC | OF_ACME | {"rival shared"}),
        (RIVAL, "self", {"rival private", "rival shared", "rival community"}),
        (RIVAL, "executable", PUBLIC | {"rival private", "rival shared"}),
        (RIVAL, "shared", set()),
        (ADMIN, "self", FEATURED),
        (ADMIN, "executable", PUBLIC),
        (ADMIN, "all", EVERY | {"moon template"}),
        (DOMAIN_ADMIN, "all", PUBLIC | OF_ACME | {"moon template"}),
    ],
)
def test_a_filter_shows_whose_templates_it_says(world: World, caller: str, word: str, expected: set[str]) -> None:
    """Own, shared, public and featured templates, each to whom they belong."""
    assert set(world.names("listTemplates", caller, templatefilter=word)) == expected


def test_executable_templates_are_ready(world: World) -> None:
    """A template is executable in the zones that have it ready; ``self`` shows it in all."""
    executable = world.rows("listTemplates", USER, templatefilter="selfexecutable")
    assert [(row["zonename"], row["isready"]) for row in executable] == [("small", True)]
    everywhere = world.rows("listTemplates", USER, templatefilter="self")
    assert [(row["zonename"], row["isready"]) for row in everywhere] == [("small", True), ("for-rivals", False)]


def test_one_row_per_template_where_wanted(world: World) -> None:
    """``showunique`` answers each template once, ready where any zone has it, and names that zone.

    Terraform reads templates so: without zone it would make every one of them anew.
    """
    (row,) = world.rows("listTemplates", USER, templatefilter="self", showunique="true")
    assert (row["name"], row["isready"]) == ("acme private", True)
    assert (row["zoneid"], row["zonename"]) == (world.id_of("zones", "small"), "small")
    (row,) = world.rows(
        "listTemplates",
        templatefilter="all",
        id=row["id"],
        showunique="true",
        zoneid=world.id_of("zones", "for-rivals"),
    )
    assert row["isready"] is False


def test_deleted_templates_appear_where_wanted(world: World) -> None:
    """``showremoved`` shows deleted templates, with the date."""
    assert "rival removed" not in world.names("listTemplates", RIVAL, templatefilter="self")
    rows = world.rows("listTemplates", RIVAL, templatefilter="self", showremoved="true", name="rival removed")
    assert all("removed" in row for row in rows)
    assert len(rows) == 2


def test_a_filter_must_be_given_for_templates(world: World) -> None:
    """A list of templates without its filter is refused; one of ISOs shows one's own executable ones."""
    answer = world.client().get("listTemplates")
    assert answer.body["errortext"] == (
        "Unable to execute API command listtemplates due to missing parameter templatefilter"
    )
    assert (answer.status, answer.body["cserrorcode"]) == (431, 9999)
    assert world.names("listIsos", USER) == ["acme iso"]


@pytest.mark.parametrize(("command", "parameter"), [("listTemplates", "templatefilter"), ("listIsos", "isofilter")])
def test_all_is_for_admins(world: World, command: str, parameter: str) -> None:
    """Users may not list all templates or ISOs, and nobody may ask by an unknown word."""
    for caller, word in ((USER, "all"), (ADMIN, "everything")):
        answer = world.client(caller).get(command, **{parameter: word})
        assert (answer.status, answer.body["cserrorcode"]) == (431, 4350)


def test_templates_for_any_hypervisor_say_so(world: World) -> None:
    """Libcloud cannot read a template without a hypervisor: it is always there."""
    rows = world.rows("listTemplates", templatefilter="featured")
    assert {row["name"]: row["hypervisor"] for row in rows} == {"Debian 12": "KVM", "Any hypervisor": "None"}
    assert all({"id", "name", "format", "ostypename", "displaytext"} <= set(row) for row in rows)
