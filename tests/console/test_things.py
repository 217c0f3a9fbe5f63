"""Pages that are made from declarations: each noun has a list, an item page and forms, with the API's own texts."""

import ast
import inspect
import re
from typing import Any
from uuid import uuid4

import pytest

from bulkdeploy.cli.connection.catalogue import read_catalogue
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.console import nouns
from bulkdeploy.console.command_forms import LEFT_OUT, subject_of
from bulkdeploy.console.formats import KIND_OF_STATE
from bulkdeploy.console.noun_tables import table_of
from bulkdeploy.console.nouns import NOUNS, Noun
from bulkdeploy.console.pages.capacity import HOST_ACTIONS
from bulkdeploy.console.pages.health import HOST_TROUBLE
from bulkdeploy.console.texts import read_texts
from bulkdeploy.declare.discovery import discover
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.domain.infrastructure.topology import AffinityType, HostResourceState, HostState
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.services.infrastructure.host_maintenance import CANCELLABLE
from tests.support.api.console_client import Page, Visitor, each_form_has_the_key
from tests.support.zones.zone_queries import Zone

TEXTS = read_texts()
APIS = {api.name: api for api in read_catalogue(discover(find_commands().values(), RoleType.ADMIN))}


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.page)
def test_declarations_name_what_there_is(noun: Noun) -> None:
    """Fields, filters and commands of a noun exist, and what is shown has a text."""
    fields = {name for name, _, _ in APIS[noun.lists].fields}
    parameters = {one.name for one in APIS[noun.lists].parameters}
    assert {name.partition(".")[0] for name in noun.shown} <= fields
    assert {*noun.filters, *noun.given} - {"listall"} <= parameters
    assert not noun.one or {noun.key} <= fields
    assert not noun.one or {noun.by} <= parameters
    assert {*noun.creates, *noun.actions} <= APIS.keys()
    assert noun.words.keys() <= {*noun.filters}


def test_states_kinds_and_flags_are_chosen_not_typed() -> None:
    """Each filter of a list by state, type or flag offers its values, which are those of the domain."""
    for noun in NOUNS:
        offered = {one.name: set(one.words) for one in table_of(noun, APIS[noun.lists]).filters if not one.hidden}
        for name, words in offered.items():
            is_closed = name.endswith("state") or name in ("type", "enabled")
            assert words or not is_closed or (noun.page, name) == ("alerts", "type"), (noun.page, name)
        if noun.page == "hosts":
            assert offered["state"] == set(HostState) - {HostState.REMOVED}
            assert offered["resourcestate"] == set(HostResourceState)
        elif noun.page == "affinity-groups":
            assert offered["type"] == set(AffinityType)
    assert not [name for name in (*noun.shown, *noun.filters) if TEXTS.columns.get(name) == name]
    assert TEXTS.nav.get(noun.page) != noun.page
    assert TEXTS.groups.get(noun.group) != noun.group
    fields_of_forms = {
        one.name for command in (*noun.creates, *noun.actions) for one in APIS[command].parameters
    } - LEFT_OUT
    assert not [name for name in fields_of_forms if TEXTS.columns.get(name) == name]
    for command in noun.actions:
        names = {one.name for one in APIS[command].parameters}
        assert subject_of(APIS[command], noun) is not None or names & {"name", "account", "domainid"}, command


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.page)
def test_every_list_item_and_form_opens(noun: Noun, admin: Visitor) -> None:
    """Each list, the page of its first thing, and the form of each command are there for the root admin."""
    listed = admin.page(noun.page)
    assert TEXTS.nav.get(noun.page) in listed.text
    assert admin.get(f"{noun.page}.csv").status_code == 200
    for command in noun.creates:
        form = admin.page(f"act?of={noun.page}&command={command}")
        assert form.all("form", action=f"act?of={noun.page}&command={command}")
        assert each_form_has_the_key(form)
    items = [link["href"] for link in listed.all("a") if noun.one and link["href"].startswith(f"{noun.one}?id=")]
    if items:
        assert each_form_has_the_key(admin.page(items[0]))
        key = items[0].partition("=")[2]
        for command in noun.actions:
            admin.page(f"act?of={noun.page}&command={command}&id={key}")


def test_a_noun_is_one_short_declaration() -> None:
    """Pages of a noun take at most 60 lines of code, which are data."""
    calls = [one for one in ast.walk(ast.parse(inspect.getsource(nouns))) if isinstance(one, ast.Call)]
    declared = [one for one in calls if isinstance(one.func, ast.Name) and one.func.id == "Noun"]
    assert len(declared) == len(NOUNS)
    assert max((one.end_lineno or 0) - one.lineno + 1 for one in declared) <= 60


def test_each_state_of_a_host_is_told_and_can_be_ended() -> None:
    """The overview names a host that is not enabled, and the host's page ends each stage of its maintenance."""
    states = {state.value for state in HostResourceState} - {"Enabled"}
    assert {value for name, value in HOST_TROUBLE if name == "resourcestate"} == states
    assert {value for name, value in HOST_TROUBLE if name == "state"} == set(HostState) - {"Up", "Removed"}
    assert set(HOST_ACTIONS["cancelHostMaintenance"]) == {state.value for state in CANCELLABLE}
    assert states <= KIND_OF_STATE.keys()
    assert not [state for state in states if re.search("[a-z][A-Z]", TEXTS.states.get(state))]


def test_a_thing_is_made_changed_and_deleted_by_forms(admin: Visitor, zone_ids: Zone) -> None:
    """A disk offering, from its form to its end; an update sends only what was changed."""
    name = f"fast-{uuid4().hex[:8]}"
    made = admin.send(
        "act?of=disk-offerings&command=createDiskOffering", {"name": name, "displaytext": name, "disksize": "7"}
    )
    assert made.status_code == 303, made.text
    where = made.headers["Location"]
    assert where.startswith("disk-offering?id=")
    assert name in admin.page(where).text
    key = where.partition("=")[2]
    changed = admin.send(
        f"act?of=disk-offerings&command=updateDiskOffering&id={key}", {"name": name, "displaytext": "for databases"}
    )
    assert changed.status_code == 303, changed.text
    assert "for databases" in admin.page(where).text
    gone = admin.send(f"act?of=disk-offerings&command=deleteDiskOffering&id={key}", {})
    assert gone.status_code == 303
    assert zone_ids.rows("SELECT 1 FROM disk_offerings WHERE uuid = :key AND removed IS NOT NULL", key=key)


def test_tags_are_set_and_taken_off_by_forms(admin: Visitor, zone_ids: Zone) -> None:
    """The form asks for tags alone: which kind of thing is tagged follows from the page."""
    network = zone_ids.scalar("SELECT uuid FROM networks WHERE removed IS NULL ORDER BY id LIMIT 1")
    form = admin.page(f"act?of=networks&command=createTags&id={network}")
    assert not [one for one in form.elements if one[1].get("name") in ("resourceids", "resourcetype")]
    of_network = (
        "SELECT t.key, t.value FROM resource_tags t JOIN networks n ON n.id = t.resource_id"
        " WHERE t.resource_type = 'Network' AND n.uuid = :network ORDER BY t.key"
    )
    for command, tags, left in (
        ("createTags", "stage=test\nteam=blue", [("stage", "test"), ("team", "blue")]),
        ("deleteTags", "stage", [("team", "blue")]),
    ):
        sent = admin.send(f"act?of=networks&command={command}&id={network}", {"tags": tags})
        assert sent.status_code == 303, sent.text
        assert [tuple(row) for row in zone_ids.rows(of_network, network=network)] == left
    assert "blue" in admin.page(f"network?id={network}").text


def vm_of_acme(admin: Visitor, zone_ids: Zone, name: str, state: str) -> Any:
    """Deploy a VM for an account; return its ids and its host's once its rows say that it is in this state."""
    form = {name: str(value) for name, value in zone_ids.bulk_parameters(1).items()}
    form |= {"nameprefix": name, "owner": f"account:{zone_ids.id_of('domains', 'acme')}:acme"}
    assert admin.send("deploy", {**form, "requesttoken": name}).status_code == 303
    newest = "SELECT v.id, v.uuid, h.uuid AS host FROM virtual_machines v JOIN hosts h ON h.id = v.host_id"
    (vm,) = zone_ids.rows(f"{newest} ORDER BY v.id DESC LIMIT 1")
    zone_ids.change("UPDATE async_jobs SET status = 1, completed = now() WHERE instance_uuid = :vm", vm=vm.uuid)
    zone_ids.change("UPDATE virtual_machines SET state = :state WHERE id = :vm", vm=vm.id, state=state)
    return vm


def test_forms_offer_only_things_that_go_with_the_vm(admin: Visitor, zone_ids: Zone) -> None:
    """A VM's form for attaching offers data volumes of the VM's owner that no VM has, and no other."""
    vm = vm_of_acme(admin, zone_ids, "attaching", "Stopped")
    zone, domain = zone_ids.bulk_parameters(1)["zoneid"], zone_ids.id_of("domains", "acme")
    offering = zone_ids.scalar("SELECT uuid FROM disk_offerings WHERE removed IS NULL AND NOT customized LIMIT 1")
    common = {"zoneid": str(zone), "diskofferingid": str(offering)}
    made = {
        name: admin.call("createVolume", name=name, **common, **owner)["id"]
        for name, owner in (
            ("free", {"account": "acme", "domainid": str(domain)}),
            ("taken", {"account": "acme", "domainid": str(domain)}),
            ("foreign", {}),
        )
    }
    admin.call("attachVolume", id=made["taken"], virtualmachineid=str(vm.uuid))
    page = admin.page(f"act?of=virtual-machines&command=attachVolume&id={vm.uuid}")
    offered = {one["value"] for one in page.all("option")}
    assert made["free"] in offered
    assert not offered & {made["taken"], made["foreign"]}
    roots = zone_ids.rows("SELECT uuid FROM volumes WHERE volume_type = 'ROOT'")
    assert not offered & {str(row.uuid) for row in roots}


def test_the_form_for_migrating_selects_the_planner_s_choice(admin: Visitor, zone_ids: Zone) -> None:
    """The form states who chose the host and how, and leaves out the host that the VM is on."""
    vm = vm_of_acme(admin, zone_ids, "moving", "Running")
    page = admin.page(f"act?of=virtual-machines&command=migrateVirtualMachine&id={vm.uuid}")
    (chosen,) = [one["value"] for one in page.all("option") if "selected" in one]
    name = zone_ids.scalar("SELECT name FROM hosts WHERE uuid = :host", host=chosen)
    assert f"UserDispersingPlanner chose {name}: clusters" in page.text
    assert str(vm.host) not in {one["value"] for one in page.all("option")}


def test_the_question_before_maintenance_tells_which_vms_fit_nowhere(admin: Visitor, zone_ids: Zone) -> None:
    """If no other host takes VMs, the question counts and names the VMs that stay, each with the reason."""
    vm = vm_of_acme(admin, zone_ids, "stays", "Running")
    enabled = [row.id for row in zone_ids.rows("SELECT id FROM hosts WHERE resource_state = 'Enabled'")]
    zone_ids.change("UPDATE hosts SET resource_state = 'Disabled' WHERE uuid <> :host", host=vm.host)
    try:
        question = admin.send("host-change", {"action": "prepareHostForMaintenance", "id": str(vm.host)})
    finally:
        zone_ids.change("UPDATE hosts SET resource_state = 'Enabled' WHERE id = ANY(:hosts)", hosts=enabled)
    page = Page(question.text)
    assert page.all("p", **{"class": "headline bad"})
    assert page.all("a", href=f"virtual-machine?id={vm.uuid}")
    assert re.search(r"0 of \d+ VMs? finds? a host", page.text)
    assert "no host has room for the VM" in page.text
    assert "host_not_enabled" in page.text


def test_what_the_api_refuses_stands_beside_its_field(admin: Visitor) -> None:
    """A form that was rejected comes back as it was filled in, with the API's own text at the field."""
    answer = admin.send(
        "act?of=networks&command=createNetwork", {"name": "", "displaytext": "kept", "zoneid": "not-an-id"}
    )
    assert answer.status_code == 422
    page = Page(answer.text)
    assert [one for one in page.all("input", name="displaytext") if one["value"] == "kept"]
    assert page.all("input", **{"aria-invalid": "true"}) or page.all("select", **{"aria-invalid": "true"})


def test_people_see_only_the_pages_that_they_may_call(alice: Visitor) -> None:
    """A user has no pages of infrastructure: not in the menu, and not by address."""
    home = alice.page("overview")
    links = {link["href"] for link in home.all("a")}
    assert {"volumes", "networks", "key-pairs"} <= links
    assert not {"hosts", "storage-pools", "alerts"} & links
    assert alice.get("act?of=hosts&command=addHost").status_code == 404
    assert alice.get("hosts").status_code == 422


def test_search_finds_by_name_id_and_address(admin: Visitor, zone_ids: Zone) -> None:
    """A host is found by its name and its id, a VM by its whole address; what is not there is said not to be."""
    vm = vm_of_acme(admin, zone_ids, "searched", "Running")
    address = zone_ids.scalar("SELECT host(ip_address) FROM nics WHERE vm_id = :vm", vm=vm.id)
    assert f"virtual-machine?id={vm.uuid}" in {link["href"] for link in admin.page(f"search?q={address}").all("a")}
    assert f"?id={vm.uuid}" not in admin.get(f"search?q={address[:-1]}").text
    (host,) = zone_ids.rows("SELECT name, uuid, ip_address FROM hosts ORDER BY id LIMIT 1")
    for text in (host.name, str(host.uuid), host.ip_address):
        assert f"host?id={host.uuid}" in {link["href"] for link in admin.page(f"search?q={text}").all("a")}
    assert "Small" in _all_found(admin, "Small")
    for text, found in (("no-such-thing-at-all", False), (host.name, True), ("Small", True)):
        assert ("Nothing that you may see" in _all_found(admin, text)) != found


def _all_found(visitor: Visitor, text: str) -> str:
    """Return the texts of a search in all kinds of objects, as a browser that requests the following parts."""
    part = visitor.page(f"search?q={text}")
    texts = [part.text]
    while following := [one["hx-get"] for one in part.all("p") if "hx-get" in one]:
        part = visitor.page(following[0])
        texts.append(part.text)
    assert len(texts) > 2
    return " ".join(texts)


def test_the_plan_tells_what_remains_of_limits(admin: Visitor, zone_ids: Zone) -> None:
    """Of an account with a limit of cores the plan says what the deployment takes and leaves."""
    acme, domain = "acme", zone_ids.id_of("domains", "acme")
    assert [int(number) for number, _ in TEXTS.resource_types.items()] == list(ResourceType)
    for limit in ("777", "-1"):
        account = zone_ids.scalar("SELECT uuid FROM accounts WHERE name = :name", name=acme)
        address = f"act?of=accounts&command=updateResourceLimit&id={account}"
        filled = admin.page(address)
        assert filled.all("input", name="account", value=acme)
        assert ("option", {"value": domain, "selected": ""}) in filled.elements
        assert ("option", {"value": "8"}) in filled.elements
        changed = admin.send(address, {"resourcetype": "8", "max": limit, "account": acme, "domainid": domain})
        assert changed.status_code == 303, changed.text
        form = {**{name: str(value) for name, value in zone_ids.bulk_parameters(2).items()}}
        plan = admin.send("deploy-plan", {**form, "owner": f"account:{domain}:{acme}"}).text
        assert ('<td class="number">777</td>' in plan) == (limit == "777")
