"""The bulk form, its plan, and the deployment that comes of it."""

import base64
import csv
import io
import re
import shlex
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.cli.connection.catalogue import Catalogue, read_catalogue
from bulkdeploy.cli.connection.naming import ID, resolve_names
from tests.support.api.console_client import Page, Visitor, words_of
from tests.support.zones.zone_queries import Zone


@pytest.fixture
def form(zone_ids: Zone, console_engine: Engine) -> dict[str, str]:
    """A form that could be sent."""
    with console_engine.connect() as connection:
        found: dict[str, Any] = {
            name: str(connection.execute(text(f"SELECT uuid FROM {table} ORDER BY id LIMIT 1")).scalar_one())
            for name, table in {
                "zoneid": "zones",
                "serviceofferingid": "service_offerings",
                "templateid": "templates",
            }.items()
        }
    owner = f"account:{zone_ids.id_of('domains', 'acme')}:acme"
    return {**found, "virtualmachinecount": "3", "owner": owner}


@pytest.fixture
def deployed(admin: Visitor, form: dict[str, str], console_engine: Engine) -> str:
    """A VM that no worker has begun with."""
    admin.send("deploy", {**form, "virtualmachinecount": "1", "nameprefix": "again", "requesttoken": "again"})
    with console_engine.connect() as connection:
        newest = "SELECT uuid FROM virtual_machines ORDER BY id DESC LIMIT 1"
        return str(connection.execute(text(newest)).scalar_one())


def test_the_form_offers_what_is_valid(admin: Visitor, form: dict[str, str], zone_ids: Zone) -> None:
    """Templates after a zone, sizes after an offering that leaves them open, keys and groups of the owner."""
    key = zone_ids.scalar(
        "SELECT k.name FROM ssh_key_pairs k JOIN accounts a ON a.id = k.account_id WHERE a.name = 'acme'"
    )
    before = Page(admin.send("deploy-fields", {"zoneid": ""}).text)
    after = Page(admin.send("deploy-fields", form).text)
    values = {option.get("value", "") for option in after.all("option")}
    assert form["templateid"] in values
    assert key in values
    assert key not in {option.get("value", "") for option in before.all("option")}
    assert not after.all("input", name="cpuNumber")


def test_a_plan_while_typing(admin: Visitor, form: dict[str, str], count_of: Callable[[str], int]) -> None:
    """What each cluster had and gets, who is left out and why, and the same as a command; nothing is deployed."""
    before = count_of("deployments")
    answer = admin.send("deploy-plan", form)
    assert "All 3 VMs fit." in words_of(answer.text)
    assert len(Page(answer.text).all("svg", **{"class": "meter"})) >= 3
    assert count_of("deployments") == before


def test_the_command_uses_names(admin: Visitor, form: dict[str, str], zone_ids: Zone) -> None:
    """Bulkmonkey makes the ids of the form of the names; a name that two things have stays an id."""
    networks = zone_ids.rows("SELECT uuid FROM networks WHERE removed IS NULL ORDER BY id LIMIT 2")
    given = {**form, "networkids": [str(row.uuid) for row in networks], "nameprefix": "it-s"}
    catalogue = Catalogue(read_catalogue(admin.call("listApis")["api"]))
    api = catalogue.get("bulkDeployVirtualMachine")
    assert api is not None

    def planned() -> tuple[dict[str, str], dict[str, str]]:
        """The command's parameters, as they stand there and as bulkmonkey sends them."""
        line = next(
            text
            for text in re.findall(r"<pre[^>]*>([^<]*)", admin.send("deploy-plan", given).text)
            if text.startswith("bulkmonkey")
        )
        shown = dict(word.partition("=")[::2] for word in shlex.split(unescape(line))[3:])
        sent = dict(shown)
        resolve_names(catalogue, api, sent, lambda command, given: admin.call(command, **given), lambda _: None)
        return shown, sent

    shown, sent = planned()
    values = [one for value in shown.values() for one in value.split(",")]
    assert not [value for value in values if ID.fullmatch(value) and not value.isdecimal()]
    assert {name: sent[name] for name in ("zoneid", "serviceofferingid", "templateid")} == {
        name: form[name] for name in ("zoneid", "serviceofferingid", "templateid")
    }
    assert sent["networkids"] == ",".join(given["networkids"])
    assert sent["domainid"] == str(zone_ids.id_of("domains", "acme"))
    name = shown["serviceofferingid"]
    twin = admin.call(
        "createServiceOffering", name=name, displaytext="x", cpunumber="1", cpuspeed="500", memory="512"
    )
    try:
        shown, sent = planned()
        assert shown["serviceofferingid"] == sent["serviceofferingid"] == form["serviceofferingid"]
    finally:
        admin.call("deleteServiceOffering", id=twin["serviceoffering"]["id"])


def test_a_plan_that_does_not_fit(admin: Visitor, form: dict[str, str]) -> None:
    """How many would."""
    answer = words_of(admin.send("deploy-plan", {**form, "owner": "", "virtualmachinecount": "50000"}).text)
    assert "of 50,000 VMs would fit." in answer


def test_a_failed_vm_is_deployed_again(
    admin: Visitor, form: dict[str, str], console_engine: Engine, deployed: str
) -> None:
    """Its page leads to the form, filled in as for one more such VM of its owner."""
    with console_engine.begin() as connection:
        state = "UPDATE virtual_machines SET state = :state WHERE uuid = CAST(:id AS uuid)"
        connection.execute(text(state), {"state": "Error", "id": deployed})
    (link,) = [
        one for one in admin.page(f"virtual-machine?id={deployed}").all("a") if one["href"].startswith("deploy?")
    ]
    filled = admin.page(link["href"])
    chosen = {option["value"] for option in filled.all("option") if "selected" in option}
    assert {form["zoneid"], form["serviceofferingid"], form["templateid"], form["owner"]} <= chosen
    assert filled.all("input", name="virtualmachinecount")[0]["value"] == "1"
    with console_engine.begin() as connection:
        connection.execute(text(state), {"state": "Stopped", "id": deployed})
    assert "Deploy again" not in admin.page(f"virtual-machine?id={deployed}").text


def test_what_is_missing_for_a_plan(admin: Visitor) -> None:
    """Is named, in the words of the form."""
    answer = words_of(admin.send("deploy-plan", {"virtualmachinecount": "3"}).text)
    assert "Still needed for a plan: Offering, Template" in answer


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("virtualmachinecount", "many", "virtualmachinecount"),
        ("nameprefix", "no spaces", "nameprefix"),
        ("rootdisksize", "0", "rootdisksize"),
        ("templateid", "x", "templateid"),
        ("place", "pod:x", "place"),
    ],
)
def test_errors_stand_beside_their_fields(
    admin: Visitor, form: dict[str, str], count_of: Callable[[str], int], field: str, value: str, shown: str
) -> None:
    """In the words of the API, in plan and form; nothing is deployed, nothing typed is lost."""
    before = count_of("deployments")
    plan = admin.send("deploy-plan", {**form, field: value}).text
    assert f'id="wrong-{shown}" hx-swap-oob="true"></span>' not in plan
    assert f'id="wrong-{shown}"' in plan
    sent = admin.send("deploy", {**form, field: value, "group": "kept-as-typed"})
    assert sent.status_code == 422
    assert 'value="kept-as-typed"' in sent.text
    wrong = next(one for one in Page(sent.text).elements if one[1].get("aria-invalid"))
    assert wrong[1]["name"] == shown
    assert count_of("deployments") == before


def test_user_data_is_encoded_for_the_caller(admin: Visitor, form: dict[str, str], zone_ids: Zone) -> None:
    """Text goes in; what guests get is that text."""
    typed = "#cloud-config\r\nname: \u00e4\r\n"
    one = {"virtualmachinecount": "1", "nameprefix": "told", "requesttoken": "u"}
    assert admin.send("deploy", {**form, **one, "userdata": typed}).status_code == 303
    answer = admin.call("getVirtualMachineUserData", virtualmachineid=zone_ids.id_of("virtual_machines", "told-1"))
    assert base64.b64decode(answer["virtualmachineuserdata"]["userdata"]).decode() == typed.replace("\r", "")


def test_a_form_that_is_sent_twice_deploys_once(
    admin: Visitor, form: dict[str, str], count_of: Callable[[str], int]
) -> None:
    """A second click finds the first one's deployment."""
    before = count_of("deployments")
    answers = [admin.send("deploy", {**form, "requesttoken": "twice"}) for _ in range(2)]
    assert len({answer.headers["Location"] for answer in answers}) == 1
    assert count_of("deployments") == before + 1


def test_a_deployment_is_followed_until_it_ends(
    admin: Visitor, form: dict[str, str], console_engine: Engine
) -> None:
    """As long as something can change the page asks again; then it stops. Cancelling is question about first."""
    location = admin.send("deploy", {**form, "requesttoken": "followed"}).headers["Location"]
    live = location.replace("deployment", "deployment-live", 1)
    first = Page(admin.get(live).text)
    assert first.all("div", id="deployment")[0]["hx-get"] == live
    assert "3 queued" in first.text
    deployment = location.partition("=")[2]
    question = admin.send("deployment-cancel", {"id": deployment})
    assert "Cancel this deployment?" in question.text
    assert "In progress" in admin.page(location).text
    assert admin.send("deployment-cancel", {"id": deployment, "sure": "yes"}).status_code == 303
    assert "Cancelled" in admin.page(location).text
    with console_engine.begin() as connection:
        failed = {
            "result": '{"errorcode": 530, "errortext": "Starting i-2-7-VM on host kvm-7: out of disk"}',
            "id": deployment,
        }
        connection.execute(
            text(
                "UPDATE async_jobs SET status = 2, result = :result, completed = now() + interval '2 s' WHERE"
                " deployment_id = (SELECT id FROM deployments WHERE uuid = :id)"
            ),
            failed,
        )
    last = Page(admin.get(live).text)
    assert "data-live" not in last.all("div", id="deployment")[0]
    assert "Starting <vm> on host kvm-7: out of disk" in last.text
    assert "3 failed" in last.text


def test_tables_are_paged_narrowed_and_ordered_by_their_address(
    admin: Visitor, form: dict[str, str], console_engine: Engine
) -> None:
    """Sixty VMs: fifty to a page, and by name in both directions across pages."""
    admin.send("deploy", {**form, "virtualmachinecount": "60", "nameprefix": "row", "requesttoken": "rows"})
    first = admin.page("virtual-machines?keyword=row-")
    assert "1\u201350 of 60" in first.text
    assert "51\u201360 of 60" in admin.page("virtual-machines?keyword=row-&page=2").text
    ordered = [
        word for word in admin.page("virtual-machines?keyword=row-&sort=-name").words if word.startswith("row-")
    ]
    downwards = sorted((f"row-{number}" for number in range(1, 61)), reverse=True)
    assert ordered == downwards[:50]
    rest = admin.page("virtual-machines?keyword=row-&sort=-name&page=2").words
    assert [word for word in rest if word.startswith("row-")] == downwards[50:]
    table = admin.get("virtual-machines.csv?keyword=row-&sort=name").text
    assert [line.partition(",")[0] for line in table.splitlines()[1:]] == downwards[::-1]
    chosen = admin.page("virtual-machines?keyword=row-&column=name&column=id")
    assert len(chosen.all("th")) == 3
    assert "Nothing matches" in admin.page("virtual-machines?keyword=there-is-none").text
    for nonsense in (
        "page=0",
        "page=x",
        "page=99999999999",
        "size=7",
        "sort=nothing",
        "column=nothing",
        "state=Nothing",
    ):
        assert admin.get(f"virtual-machines?{nonsense}").status_code in (200, 422)
    del console_engine


def test_tables_as_csv(admin: Visitor, form: dict[str, str], console_engine: Engine) -> None:
    """Every row and column; what a spreadsheet would compute is text."""
    admin.send("deploy", {**form, "virtualmachinecount": "2", "nameprefix": "sheet", "requesttoken": "sheets"})
    with console_engine.begin() as connection:
        connection.execute(text("UPDATE virtual_machines SET name = '=1+1' WHERE name = 'sheet-1'"))
    answer = admin.get("virtual-machines.csv?keyword=sheet")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="virtual-machines.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert {row["name"] for row in rows} <= {"'=1+1", "sheet-2"}
    assert rows
    assert rows[0]["memory"] == "512"


def test_many_vms_at_once(admin: Visitor, form: dict[str, str], console_engine: Engine) -> None:
    """What is done to running VMs is asked about first; refusals are told with their number."""
    admin.send("deploy", {**form, "virtualmachinecount": "3", "nameprefix": "many", "requesttoken": "many"})
    with console_engine.connect() as connection:
        ids = [
            str(one)
            for one in connection.execute(
                text("SELECT uuid FROM virtual_machines WHERE name LIKE 'many-%'")
            ).scalars()
        ]
    sent = {"action": "destroyVirtualMachine", "id": ids, "next": "virtual-machines?keyword=many"}
    question = admin.send("virtual-machines-change", sent)
    assert "Destroy 3 VMs?" in question.text
    assert "many-1" in question.text
    refused = admin.send("virtual-machines-change", {**sent, "id": ["x", "y"], "sure": "yes"})
    assert refused.status_code == 422
    done = admin.send("virtual-machines-change", {**sent, "sure": "yes"})
    assert done.status_code == 303
    assert "3" in admin.page(done.headers["Location"]).text
    for chosen in ({"everything": "1"}, {"id": ids}):
        again = admin.send(
            "virtual-machines-change", {"action": "rebootVirtualMachine", **chosen, "next": sent["next"]}
        )
        assert (again.status_code, "Reboot 3 VMs" in again.text) == (200, True)
    elsewhere = admin.send("virtual-machines-change", {**sent, "next": "https://elsewhere.example/", "action": "x"})
    assert elsewhere.headers["Location"] == "virtual-machines"


def test_how_many_more_fit(admin: Visitor, form: dict[str, str]) -> None:
    """Of an offering, in all and by cluster."""
    wanted = {name: form[name] for name in ("zoneid", "serviceofferingid", "templateid")}
    answer = words_of(admin.send("capacity-fit", wanted).text)
    assert "more such VMs fit." in answer
    assert "Choose an offering" in words_of(admin.send("capacity-fit", {}).text)


def test_a_host_in_maintenance(admin: Visitor, console_engine: Engine) -> None:
    """Is question about first, and shown with what is still there."""
    with console_engine.connect() as connection:
        host = str(connection.execute(text("SELECT uuid FROM hosts ORDER BY id DESC LIMIT 1")).scalar_one())
    question = admin.send("host-change", {"action": "prepareHostForMaintenance", "id": host})
    assert "Put host " in question.text
    done = admin.send("host-change", {"action": "prepareHostForMaintenance", "id": host, "sure": "yes"})
    assert done.headers["Location"] == f"host?id={host}"
    assert "aintenance" in admin.page(f"host?id={host}").text


def test_the_page_of_a_managed_deployment_shows_its_replacement(
    admin: Visitor, form: dict[str, str], console_engine: Engine
) -> None:
    """What is replaced in each cluster, and forms that scale, replace, pause, resume and roll back."""
    admin.send("deploy", {**form, "virtualmachinecount": "2", "nameprefix": "kept", "requesttoken": "kept"})
    with console_engine.begin() as connection:
        deployment = connection.execute(
            text(
                "INSERT INTO managed_deployments (deployment_id, desired_count, scale_in_policy, command,"
                " parameters) SELECT max(id), 3, 'Balanced', 'bulkDeployVirtualMachine', '{}' FROM deployments"
                " RETURNING (SELECT uuid FROM deployments ORDER BY id DESC LIMIT 1)"
            )
        ).scalar_one()
    form_of = f"act?of=deployments&command=replaceBulkDeployment&id={deployment}"
    assert admin.send(form_of, {"method": "Restore", "maxunavailable": "1"}).status_code == 303
    page = admin.page(f"deployment?id={deployment}")
    words = words_of(page.text)
    assert "Rolling replacement" in words
    assert "0 of 2 VMs replaced, 0 failed" in words
    offered = " ".join(link["href"] for link in page.all("a"))
    for command in ("updateBulkDeployment", "replaceBulkDeployment", "createVMSchedule"):
        assert command in offered
    for action, state, next_action in (("pause", "Paused", "resume"), ("resume", "In progress", "pause")):
        assert page.all("button", value=action)
        assert admin.send("deployment-replacement", {"id": deployment, "action": action}).status_code == 303
        page = admin.page(f"deployment?id={deployment}")
        assert state in words_of(page.text)
        assert page.all("button", value=next_action)
    question = admin.send("deployment-replacement", {"id": deployment, "action": "rollback"})
    assert "Roll the replacement back?" in question.text
    schedule = admin.page(f"act?of=schedules&command=createVMSchedule&deploymentid={deployment}")
    assert str(deployment) in {one["value"] for one in schedule.all("option") if "selected" in one}
