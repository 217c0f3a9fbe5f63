"""Care with connections and credentials, against another server."""

import json
import signal
import ssl
import threading
from collections.abc import Callable
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import Monkey
from tests.cli.recorded_answers import OFFERING, TEMPLATE, ZONE
from tests.cli.recorded_server import API_KEY, PASSWORD, SECRET_KEY, RecordedServer
from tests.support.processes.certificates import self_signed
from tests.support.runs.waiting import PATIENCE_S

BULK = (f"zoneid={ZONE}", f"templateid={TEMPLATE}", f"serviceofferingid={OFFERING}", "virtualmachinecount=1")


def test_an_api_error_is_one_line_with_its_codes(monkey: Monkey) -> None:
    """What the API refuses ends with status 1 and one line that has its text and both codes."""
    done = monkey("bulkdeploy", "virtualmachine", *BULK[:2], f"serviceofferingid={ZONE}", "virtualmachinecount=1")
    assert (done.status, done.out) == (1, "")
    (line,) = done.err.strip().splitlines()[1:]
    assert line.startswith("Error: ")
    assert "(bulkDeployVirtualMachine: HTTP 431, code 4350)" in line


def test_errors_are_json_with_json_output(monkey: Monkey) -> None:
    """With ``-o json`` errors are JSON objects on standard error."""
    monkey("sync")
    refused = monkey("list", "templates", "templatefilter=all", "pagesize=900", "page=1", "-o", "json")
    assert refused.status == 1
    error = json.loads(refused.err)
    assert (error["command"], error["errorcode"], error["cserrorcode"]) == ("listTemplates", 431, 9999)
    usage = monkey("list", "zones", "nmae=x", "-o", "json")
    assert "nmae" in json.loads(usage.err)["errortext"]


@pytest.mark.parametrize("fault", [(503, "<html>busy</html>"), (429, '{"errorresponse":{"errorcode":429}}')])
def test_reading_is_repeated(monkey: Monkey, recorded: RecordedServer, fault: tuple[int, str]) -> None:
    """A list that fails in a way that passes is asked for again, after a pause."""
    monkey("sync")
    recorded.faults.extend([("listZones", *fault)] * 2)
    assert monkey("list", "zones").status == 0
    assert len(recorded.requested("listZones")) == 3


def test_what_changes_something_is_never_repeated(monkey: Monkey, recorded: RecordedServer) -> None:
    """A deployment whose answer was lost is not sent again."""
    monkey("sync")
    recorded.faults.append(("bulkDeployVirtualMachine", 503, "<html>busy</html>"))
    done = monkey("bulkdeploy", "virtualmachine", *BULK)
    assert done.status == 1
    assert len(recorded.requested("bulkDeployVirtualMachine")) == 1


def test_a_server_that_does_not_answer_is_given_up(monkey: Monkey, recorded: RecordedServer) -> None:
    """After ``requesttimeout`` a call ends with status 1; what changes something is not sent a second time."""
    monkey("sync")
    assert monkey("set", "requesttimeout", "0.2").status == 0
    recorded.held["updateZone"] = threading.Event()
    done = monkey("update", "zone", f"id={ZONE}")
    assert done.status == 1
    assert f"no answer from {recorded.url} within 0.2 seconds" in done.err
    assert len(recorded.requested("updateZone")) == 1


def test_an_interrupted_change_may_have_been_made(monkey: Monkey, recorded: RecordedServer) -> None:
    """Ctrl-C while a call that changes something is not answered says that it may be done, with status 130."""
    monkey("sync")
    recorded.held["updateZone"] = threading.Event()
    process = monkey.start("update", "zone", f"id={ZONE}", "name=New")
    while not recorded.requested("updateZone"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "the call may have been executed nevertheless" in err


def test_a_page_that_is_no_api_is_said_to_be_none(monkey: Monkey, recorded: RecordedServer) -> None:
    """Something else at the address is named as such, at once."""
    monkey("sync")
    recorded.faults.append(("listZones", 200, "<html>welcome</html>"))
    done = monkey("list", "zones")
    assert done.status == 1
    assert "not with a response of the API. Is the url that of a CloudStack API?" in done.err
    assert len(recorded.requested("listZones")) == 1


def test_a_server_that_does_not_listen_is_an_api_error(bare_monkey: Monkey) -> None:
    """A server that does not listen ends with status 1 and its address."""
    done = bare_monkey("list", "zones", "-u", "http://127.0.0.1:9/client/api", "-k", "x", "-s", "y")
    assert done.status == 1
    assert "Error: cannot reach http://127.0.0.1:9/client/api: Connection refused" in done.err


def test_a_clock_that_is_wrong_is_named(monkey: Monkey, recorded: RecordedServer) -> None:
    """When signatures have expired because clocks differ, that is what the error says."""
    recorded.ahead = timedelta(minutes=20)
    done = monkey("list", "zones")
    assert done.status == 1
    assert "HTTP 401" in done.err
    assert "seconds behind the server's" in done.err


def test_wrong_keys_are_named(monkey: Monkey) -> None:
    """When the keys are wrong, the error names the profile; when there are none, how to give them."""
    wrong = monkey("list", "zones", "-s", "wrong")
    assert wrong.status == 1
    assert "Check the keys of profile lab" in wrong.err
    none = monkey("list", "zones", "-p", "localcloud", "-u", "http://127.0.0.1:9")
    assert none.status == 1


def test_options_win_over_the_profile(bare_monkey: Monkey, recorded: RecordedServer) -> None:
    """``-u -k -s`` are enough without any configuration, and a bare host gets the usual path."""
    url = recorded.url.removesuffix("/client/api")
    assert bare_monkey("list", "zones", "-u", url, "-k", API_KEY, "-s", SECRET_KEY).status == 0


def test_the_environment_of_cs_is_taken(bare_monkey: Monkey, recorded: RecordedServer) -> None:
    """Variables of the ``cs`` client fill what the profile leaves open; bulkmonkey's own win over it."""
    variables = {"CLOUDSTACK_ENDPOINT": recorded.url, "CLOUDSTACK_KEY": API_KEY, "CLOUDSTACK_SECRET": SECRET_KEY}
    assert bare_monkey("list", "zones", **variables).status == 0
    assert bare_monkey("list", "zones", **variables, BULKMONKEY_SECRETKEY="wrong").status == 1


def test_a_user_name_and_password_log_in(bare_monkey: Monkey, recorded: RecordedServer) -> None:
    """A profile without keys logs in by POST, and out again when the command is done."""
    bare_monkey("set", "profile", "people")
    for setting in (("url", recorded.url), ("username", "admin"), ("password", PASSWORD)):
        assert bare_monkey("set", *setting).status == 0
    assert bare_monkey("list", "zones").status == 0
    assert {one.method for one in recorded.seen if one.command in ("login", "logout")} == {"POST"}
    assert not recorded.sessions


def test_the_servers_certificate_must_verify(monkey_at: Callable[[str], Monkey], tmp_path: Path) -> None:
    """A certificate of an unknown authority is refused; its file, or the user's word, lets it pass."""
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HTTPServer(("127.0.0.1", 0), _Empty)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        monkey = monkey_at(f"https://localhost:{server.server_port}/client/api")
        refused = monkey("sync")
        assert refused.status == 1
        assert "does not verify" in refused.err
        assert monkey("sync", REQUESTS_CA_BUNDLE=str(certificate)).status == 0
        assert monkey("sync", "--insecure").status == 0
        assert monkey("set", "verifycert", "false").status == 0
        assert monkey("sync", REQUESTS_CA_BUNDLE="/etc/hostname").status == 0
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_proxy_variables_are_followed(monkey_at: Callable[[str], Monkey], recorded: RecordedServer) -> None:
    """With ``http_proxy`` set, requests go to the proxy, with the whole URL."""
    monkey = monkey_at("http://cloud.invalid/client/api")
    proxy = recorded.url.removesuffix("/client/api")
    assert monkey("list", "zones", http_proxy=proxy).status == 0
    assert recorded.seen[-1].target.startswith("http://cloud.invalid/client/api?")
    assert monkey("list", "zones", http_proxy=proxy, no_proxy="cloud.invalid").status == 1


def test_literal_keys_do_not_stay_in_the_process_list(bare_monkey: Monkey, recorded: RecordedServer) -> None:
    """While a command with ``-k KEY -s KEY password=...`` runs, none of them is among its arguments."""
    recorded.held["listZones"] = threading.Event()
    words = ("list", "zones", "name=Demo", "-u", recorded.url, "-k", API_KEY, f"-s{SECRET_KEY}", "--send-unknown")
    process = bare_monkey.start(*words, "password=hunter2")
    try:
        while not recorded.requested("listZones"):
            assert process.poll() is None
        arguments = psutil.Process(process.pid).cmdline()
        assert "name=Demo" in arguments
        assert not [word for word in arguments if API_KEY in word or SECRET_KEY in word or "hunter2" in word]
    finally:
        recorded.held["listZones"].set()
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert ZONE in out
    assert recorded.requested("listZones")[0]["password"] == "hunter2"


def test_keys_may_come_from_files_and_standard_input(
    bare_monkey: Monkey, recorded: RecordedServer, tmp_path: Path
) -> None:
    """``-k @FILE`` reads a key and ``-s -`` takes it from standard input."""
    (tmp_path / "key").write_text(f"{API_KEY}\n", encoding="utf-8")
    words = ("list", "zones", "-u", recorded.url, "-k", f"@{tmp_path / 'key'}", "-s", "-")
    assert bare_monkey(*words, text=f"{SECRET_KEY}\n").status == 0


def test_debug_output_names_no_secret(monkey: Monkey) -> None:
    """``-d`` shows requests without keys, signatures and passwords."""
    done = monkey("list", "zones", "password=hunter2", "--send-unknown", "-d")
    assert "GET" in done.err
    for secret in (API_KEY, SECRET_KEY, "hunter2", "signature"):
        assert secret not in done.err


class _Empty(BaseHTTPRequestHandler):
    """An API with one command."""

    def do_GET(self) -> None:
        """Answer listApis."""
        body = b'{"listapisresponse":{"count":1,"api":[{"name":"listZones"}]}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""
