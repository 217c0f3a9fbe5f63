"""Text: lines cut into commands and words, secrets found in them, answers laid out, reasons put into words."""

import json
import shlex
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from bulkdeploy.cli.concealment import HIDDEN, secret_spans, without_secrets
from bulkdeploy.cli.connection.catalogue import read_catalogue
from bulkdeploy.cli.connection.profiles import complete_url
from bulkdeploy.cli.deployments.batch_report import grouped
from bulkdeploy.cli.deployments.explain import why_cluster
from bulkdeploy.cli.deployments.jobs import Failure, failure_of, result_of
from bulkdeploy.cli.output.answers import as_rows, filtered
from bulkdeploy.cli.output.formats import rendered
from bulkdeploy.cli.output.lines import commands_in, piped, words_before
from bulkdeploy.cli.output.tables import table_of
from tests.cli.recorded_answers import apis

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), min_size=1, max_size=12)
ROWS = st.lists(
    st.dictionaries(st.sampled_from(["id", "name", "state", "memory", "nic", "text"]), WORDS | st.integers()),
    max_size=6,
)


@given(st.lists(WORDS, max_size=6))
def test_quoted_words_come_back(words: list[str]) -> None:
    """Whatever a shell would quote is read back as the same words, with the last one as being typed."""
    before, typed, start = words_before(shlex.join(words))
    assert [*before, typed] == (words or [""])
    assert start <= len(shlex.join(words))


@given(WORDS)
def test_the_word_being_typed_starts_where_it_starts(word: str) -> None:
    """What completion replaces is the raw text of the last word, quotes included."""
    line = f"list zones name={shlex.quote(word)}"
    assert line[words_before(line)[2] :] == f"name={shlex.quote(word)}"


@pytest.mark.parametrize(
    ("line", "words", "typed"),
    [
        ("list zones ", ["list", "zones"], ""),
        ("list zones name='a b", ["list", "zones"], "name=a b"),
        ("list zones name=a\\ b", ["list", "zones"], "name=a b"),
        ("", [], ""),
    ],
)
def test_unfinished_words_are_read(line: str, words: list[str], typed: str) -> None:
    """An open quote or a blank after a backslash belongs to the word being typed."""
    assert words_before(line)[:2] == (words, typed)


def test_a_pasted_text_becomes_commands() -> None:
    """Remarks and empty lines are left out; indented lines and those after a backslash go on."""
    text = "# first\n\nlist zones\r\nupdate zone\n  id=1\n\tname='a\nb'\nlist \\\nhosts\n"
    assert commands_in(text) == ["list zones", "update zone id=1 name='a\nb'", "list hosts"]


def test_pipes_in_quotes_are_text() -> None:
    """Only a bare ``|`` ends a command."""
    assert piped("list zones name='a|b' | grep x | head") == ("list zones name='a|b' ", "grep x | head")
    assert piped('list zones name="|"') == ('list zones name="|"', "")


@pytest.mark.parametrize(
    "line",
    [
        "set secretkey TOP",
        "set password 'TOP'",
        "set apikey -TOP",
        "list zones -k -TOP -o json",
        "list zones -s TOP",
        "list zones -sTOP",
        "list zones --secretkey=TOP",
        "list zones -k TOP -o json",
        "deploy virtualmachine password=TOP",
        "update user usersecretkey=TOP",
        "add host clusterpassword=TOP url=x",
        'login password="TOP and more"',
        "create storagepool name=ceph url=rbd://svc:TOP@10.1.1.1/vms",
    ],
)
def test_secrets_are_found_in_lines(line: str) -> None:
    """Wherever a secret can stand in a line, it is found, and nothing else is."""
    ((start, end),) = secret_spans(line)
    assert "TOP" in line[start:end]
    assert secret_spans(line[:start] + "@file" + line[end:]) == []


@pytest.mark.parametrize(
    "line", ["list zones keyword=key", "set output json", "list users -o csv", "set secretkey "]
)
def test_lines_without_secrets_have_none(line: str) -> None:
    """Words that only sound like secrets are left alone."""
    assert secret_spans(line) == []


def test_secrets_in_answers_are_hidden_at_any_depth() -> None:
    """Keys, passwords and session keys are hidden wherever they stand; the rest stays."""
    answer = {"user": [{"apikey": "a", "id": "1", "account": {"rootpassword": "b"}}], "sessionkey": "c"}
    hidden = {"user": [{"apikey": HIDDEN, "id": "1", "account": {"rootpassword": HIDDEN}}], "sessionkey": HIDDEN}
    assert without_secrets(answer) == hidden


@given(ROWS, st.integers(40, 200))
def test_tables_are_never_wider_than_the_terminal(rows: list[dict[str, object]], width: int) -> None:
    """Whatever the answer holds, no line of its table is wider than the terminal."""
    console = Console(width=width, file=StringIO(), force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(table_of(as_rows({"count": len(rows), "thing": rows}), width), crop=False)
    assert all(cell_len(line) <= width for line in capture.get().splitlines())


@given(ROWS)
def test_json_holds_the_whole_answer(rows: list[dict[str, object]]) -> None:
    """JSON without a filter is the answer itself."""
    answer = {"count": len(rows), "thing": rows}
    assert json.loads(rendered(answer, "json")) == answer


@given(ROWS, st.lists(st.sampled_from(["ID", "name", "nothing"]), min_size=1, unique=True))
def test_filters_only_take_away(rows: list[dict[str, object]], fields: list[str]) -> None:
    """A filtered row has the fields asked for that it had, in any case of their names, and no others."""
    picked = filtered({"count": len(rows), "thing": rows}, fields)["thing"] if any(rows) else []
    for row, before in zip(picked, rows, strict=bool(picked)):
        assert row == {field: before[field.lower()] for field in fields if field.lower() in before}


def test_incomplete_listings_of_apis_are_read() -> None:
    """APIs without related, descriptions or flags, and empty fields, are read; nameless ones are left out."""
    catalogue = read_catalogue([{"name": "listZones", "params": [{"name": "id"}, {}], "response": [{}]}, {}])
    (api,) = catalogue
    assert (api.verb, api.noun, api.is_async, [one.name for one in api.parameters]) == (
        "list",
        "zones",
        False,
        ["id"],
    )


def test_every_api_is_found_by_its_words() -> None:
    """Verb and noun lead to each API, and so does its name."""
    catalogue = read_catalogue(apis())
    for api in catalogue:
        for words in ([api.verb, api.noun], [api.name], [api.name.upper()]):
            found = catalogue.find([*words, "id=1"])
            assert found == (api, ["id=1"])


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("cloud.example.org", "http://cloud.example.org/client/api"),
        ("https://cloud.example.org:8443/", "https://cloud.example.org:8443/client/api"),
        ("https://cloud.example.org/other", "https://cloud.example.org/other"),
    ],
)
def test_urls_are_completed(text: str, url: str) -> None:
    """Scheme and usual path are added where they are missing."""
    assert complete_url(text) == url


def cluster(name: str, before: int, added: int, capacity: int) -> dict[str, object]:
    """A cluster of a spread."""
    return {"clusterid": name, "before": before, "added": added, "capacity": capacity}


def test_clusters_get_a_true_reason() -> None:
    """Full, over the level, filled up, alone: each cluster's counts lead to its reason."""
    clusters = [cluster("a", 0, 9, 100), cluster("b", 5, 4, 100), cluster("c", 2, 3, 3), cluster("d", 0, 0, 0)]
    clusters.append(cluster("e", 12, 0, 50))
    reasons = {str(one["clusterid"]): why_cluster(one, {"clusters": clusters}) for one in clusters}
    assert "no VMs here; clusters with fewest are filled first, evenly, up to 9" in reasons["a"]
    assert "5 VMs here" in reasons["b"]
    assert "room for 3 more" in reasons["c"]
    assert reasons["d"] == "no room for another such VM"
    assert "already had 12 VMs here" in reasons["e"]
    assert why_cluster(clusters[0], {"clusters": clusters[:1]}) == "the only cluster that qualified"
    by_another = {"clusters": clusters, "planner": "FirstFitPlanner"}
    assert "FirstFitPlanner" in why_cluster(clusters[0], by_another)
    assert why_cluster(clusters[4], by_another) == "not needed"


def test_one_reason_on_many_hosts_is_one_reason() -> None:
    """Failures that differ only in VM and host are one row, which says how many hosts it was."""
    failures = [
        Failure(
            f"job-{n}", f"{n:08x}", 534, f"VM i-2-{n}-VM did not start: boot failed on host kvm-{n % hosts}: full"
        )
        for hosts in (1, 20)
        for n in range(40)
    ]
    (alone,) = grouped(failures[:40])
    assert alone.as_row()["errortext"] == "VM <vm> did not start: boot failed on host kvm-0: full"
    (many,) = grouped(failures[40:])
    row = many.as_row()
    assert (row["failed"], row["jobid"]) == (40, "job-0")
    assert "boot failed on 20 hosts (kvm-0, kvm-1, kvm-2, ...): full" in row["errortext"]


def test_results_in_every_form_are_understood() -> None:
    """A job's result may be an object, JSON in a text, or a bare text; a failure's reason is found in each."""
    failed = {"jobid": "1", "jobstatus": 2, "jobresultcode": 530}
    for result, reason in (
        ({"errorcode": 533, "errortext": "no room"}, "no room"),
        ('{"errorcode": 533, "errortext": "no room"}', "no room"),
        (
            "job cancelled because of management server restart",
            "job cancelled because of management server restart",
        ),
        (None, "no reason given"),
    ):
        failure = failure_of({**failed, "jobresult": result})
        assert failure is not None
        assert failure.reason == reason
    assert failure_of({"jobstatus": 1}) is None
    assert result_of({"jobresult": '{"success": true}'}) == {"success": True}
