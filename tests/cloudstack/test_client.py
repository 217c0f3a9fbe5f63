"""The client of a CloudStack: signed as CloudStack checks it, patient when throttled, whole where pages are not."""

import time
import traceback
from collections.abc import Iterator

import pytest

from bulkdeploy.cloudstack.client import Access, CallRefused, Client, NotAnswered
from bulkdeploy.embedded.valkey import free_port
from tests.cloudstack.paging_server import API_KEY, SECRET_KEY, PagingServer, paging_server

THROTTLED = b'{"errorresponse":{"errorcode":429,"errortext":"retry after [20] ms."}}'
AWAY: tuple[int, dict[str, str], bytes] = (503, {}, b"<html>no backend</html>")


@pytest.fixture
def server() -> Iterator[PagingServer]:
    """A server without rows."""
    with paging_server() as running:
        yield running


@pytest.fixture
def client(server: PagingServer) -> Iterator[Client]:
    """A client of it that is in a hurry."""
    client = Client(Access(server.url, API_KEY, SECRET_KEY, calls_per_second=1000))
    yield client
    client.close()


def of_hosts(number: int) -> tuple[str, list[dict[str, object]]]:
    """So many rows of hosts, and their key."""
    return "host", [{"id": f"h{index}", "name": f"host {index}"} for index in range(number)]


def test_any_text_is_signed_as_cloudstack_checks_it(server: PagingServer, client: Client) -> None:
    """Java's encoder leaves other characters bare than Python's; the server has its own signing."""
    strange = "a~b[c]*d e+f/g@h,i&j=kü"
    client.call("updateHost", {"id": "h1", "annotation": strange})
    assert server.seen[0][1]["annotation"] == strange


def test_a_wrong_secret_is_told_in_the_words_of_cloudstack(server: PagingServer) -> None:
    """Code and text are CloudStack's."""
    client = Client(Access(server.url, API_KEY, "another"))
    with pytest.raises(CallRefused, match="unable to verify user credentials") as refused:
        client.call("listHosts")
    assert (refused.value.code, refused.value.command) == (401, "listHosts")


def test_short_reads_are_urls_and_long_ones_and_changes_are_forms(server: PagingServer, client: Client) -> None:
    """Request lines have limits, and hardened servers take changes as forms only."""
    server.lists["listHosts"] = of_hosts(1)
    client.list_all("listHosts")
    client.list_all("listHosts", {"keyword": "k" * 3000})
    client.call("deleteHost", {"id": "h0"})
    assert [method for method, _ in server.seen] == ["GET", "POST", "POST"]


def test_all_pages_are_read(server: PagingServer, client: Client) -> None:
    """One call per page, and no more."""
    server.lists["listHosts"] = of_hosts(1203)
    listed = client.list_all("listHosts")
    assert [row["id"] for row in listed.rows] == [f"h{index}" for index in range(1203)]
    assert listed.is_whole
    assert client.calls["listHosts"] == 3


def test_an_empty_list_has_no_rows(server: PagingServer, client: Client) -> None:
    """CloudStack leaves count and rows out."""
    server.lists["listHosts"] = of_hosts(0)
    assert client.list_all("listHosts").rows == []


def test_rows_that_a_page_lost_are_found_in_another_walk(server: PagingServer, client: Client) -> None:
    """The second page came shifted: one row twice, the last not at all."""
    server.lists["listHosts"] = of_hosts(1000)
    server.shifted = {2}
    listed = client.list_all("listHosts")
    assert len(listed.rows) == 1000
    assert client.calls["listHosts"] == 4


def test_a_list_that_stays_short_of_its_count_says_so(server: PagingServer, client: Client) -> None:
    """Nobody may take what is missing for removed."""
    server.lists["listHosts"] = of_hosts(1000)
    server.shifted = {2, 4, 6}
    listed = client.list_all("listHosts")
    assert (len(listed.rows), listed.count, listed.is_whole) == (999, 1000, False)


def test_a_server_with_smaller_pages_is_asked_for_these(server: PagingServer, client: Client) -> None:
    """Operators may set default.page.size lower."""
    server.lists["listHosts"] = of_hosts(250)
    server.most_rows = 100
    assert len(client.list_all("listHosts").rows) == 250
    assert client.calls["listHosts"] == 4


@pytest.mark.parametrize("is_named", [True, False])
def test_ids_that_are_not_there_hide_no_others(server: PagingServer, client: Client, is_named: bool) -> None:
    """CloudStack refuses a list for one id that it does not know: that is left out, the others are found.

    Where it names the id that is one call more; where it does not, there are some.
    """
    key, rows = of_hosts(500)
    server.lists["listHosts"] = (key, rows)
    server.unknown, server.names_unknown = {"h7", "h9"}, is_named
    ids = [str(row["id"]) for row in rows]
    assert {row["id"] for row in client.by_ids("listHosts", ids, {})} == {*ids} - server.unknown
    assert client.calls["listHosts"] == 5 if is_named else client.calls["listHosts"] > 5


def test_ids_that_fill_several_pages_are_all_found(server: PagingServer, client: Client) -> None:
    """A server with smaller pages keeps none of them back."""
    server.lists["listHosts"] = of_hosts(150)
    server.most_rows = 100
    assert len(client.by_ids("listHosts", [f"h{index}" for index in range(150)], {})) == 150


def test_any_other_refusal_of_ids_is_told(server: PagingServer, client: Client) -> None:
    """Nothing counts as gone since something else was wrong."""
    body = b'{"listhostsresponse":{"errorcode":431,"errortext":"unable to translate"}}'
    server.answers = [(431, {}, body)]
    with pytest.raises(CallRefused, match="unable to translate"):
        client.by_ids("listHosts", ["h1", "h2"], {})


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "0"}])
def test_a_throttled_change_is_sent_again_later(
    server: PagingServer, client: Client, headers: dict[str, str]
) -> None:
    """It was not executed, so that it is done once."""
    server.answers = [(429, headers, THROTTLED)] * 3
    assert client.call("deleteHost", {"id": "h1"})["success"] is True
    assert server.written == ["deleteHost"]


def test_a_read_outlives_answers_of_a_proxy_without_backend(server: PagingServer, client: Client) -> None:
    """And a connection that is cut."""
    server.lists["listHosts"] = of_hosts(3)
    server.answers = [AWAY, None]
    assert len(client.list_all("listHosts").rows) == 3


def test_a_change_without_an_answer_is_not_repeated(server: PagingServer, client: Client) -> None:
    """Whoever sent it must look what became of it."""
    server.answers = [None]
    with pytest.raises(NotAnswered) as silence:
        client.call("deleteHost", {"id": "h1"})
    assert silence.value.was_sent
    assert server.written == ["deleteHost"]


def test_a_change_that_cannot_have_arrived_says_so() -> None:
    """Nothing listens there."""
    client = Client(Access(f"http://127.0.0.1:{free_port()}/client/api", API_KEY, SECRET_KEY))
    with pytest.raises(NotAnswered) as silence:
        client.call("deleteHost", {"id": "h1"}, timeout_s=0.1)
    assert not silence.value.was_sent
    assert client.calls.total() == 0


@pytest.mark.parametrize("reached", ["nobody", "no TLS", "no URL"])
def test_no_error_tells_the_key_or_the_signature(server: PagingServer, reached: str) -> None:
    """Texts and tracebacks go to logs; they say what was not reached."""
    url = {
        "nobody": f"http://127.0.0.1:{free_port()}/client/api",
        "no TLS": server.url.replace("http:", "https:"),
        "no URL": "http://127.0.0.1:port/client/api",
    }[reached]
    client = Client(Access(url, API_KEY, SECRET_KEY))
    with pytest.raises(NotAnswered, match=r"127\.0\.0\.1") as silence:
        client.call("listHosts", timeout_s=0.1)
    logged = "".join(traceback.format_exception(silence.value)).lower()
    assert ("apikey=" in logged, "signature=" in logged) == (False, False)
    client.close()


def test_calls_keep_their_distance(server: PagingServer) -> None:
    """Six calls at fifty a second cannot be sent within less than a tenth of one."""
    client = Client(Access(server.url, API_KEY, SECRET_KEY, calls_per_second=50))
    began = time.monotonic()
    for _ in range(6):
        client.call("deleteHost", {"id": "h1"})
    assert time.monotonic() - began >= 5 / 50


def test_a_job_of_a_restarted_server_failed_with_its_text(server: PagingServer, client: Client) -> None:
    """Its result is a text where others have an object."""
    text = "job cancelled because of management server restart or shutdown"
    body = b'{"queryasyncjobresultresponse":{"jobstatus":2,"jobresultcode":530,"jobresult":"%b"}}' % text.encode()
    server.answers = [(200, {}, body)]
    job = client.job("j1")
    assert (job.is_over, job.code, job.text) == (True, 530, text)


def test_a_failed_job_has_the_code_and_the_text_of_its_result(server: PagingServer, client: Client) -> None:
    """The job's own code is 530 for all failures."""
    result = b'{"errorcode":533,"errortext":"Unable to create a deployment"}'
    body = b'{"queryasyncjobresultresponse":{"jobstatus":2,"jobresultcode":530,"jobresult":%b}}' % result
    server.answers = [(200, {}, body)]
    job = client.job("j1")
    assert (job.is_over, job.code, job.text) == (True, 533, "Unable to create a deployment")
