"""``console``: the serial console of a VM in this terminal, or on standard input and output."""

import os
import select
import ssl
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from urllib.parse import urlencode, urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage
from websockets.sync.client import ClientConnection, connect

from bulkdeploy.cli.arguments import check_values, read_arguments
from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.connection.naming import resolve_names
from bulkdeploy.cli.connection.profiles import Connection
from bulkdeploy.cli.failures import CommandFailed, ConnectionFailed, UsageError

API, VM = "createConsoleEndpoint", "virtualmachineid"
PATH = "/client/api"
HANG_UP = b"\x1d"
"""Ctrl-], as telnet and virsh have it."""

CHUNK_BYTES = 4096
REFUSED = (1008, 1013)
POLL_S = 0.2


def console(context: CommandContext, words: Sequence[str]) -> None:
    """Connect the terminal to a VM's serial console until the user or the server ends the connection.

    Raises:
        UsageError: no VM is named, or this API does not support consoles.
        CommandFailed: the API rejected the call, or the console cannot be reached.
    """
    api = context.catalogue.get(API)
    if api is None:
        raise UsageError("this API does not support consoles")
    if len(words) != 1 or "=" in words[0]:
        raise UsageError("no VM is named", hint="bulkmonkey console VM, by its name or id")
    arguments = read_arguments(api, [f"{VM}={words[0]}", "consoletype=serial"], send_unknown=True)
    check_values(api, arguments.parameters)
    resolve_names(context.catalogue, api, arguments.parameters, context.call, context.screen.print_message)
    endpoint = context.call(API, arguments.parameters)["consoleendpoint"]
    with _connected(context.connection, endpoint["websocket"]["token"]) as socket:
        context.screen.print_message(f"Console of {words[0]}; Ctrl-] ends it")
        with _raw_terminal():
            ended = _carry(socket)
    if ended:
        raise CommandFailed(ended)


def console_url(api_url: str, token: str) -> str:
    """Return the URL of the console's websocket, which is next to the API's URL, also behind a proxy."""
    parts = urlsplit(api_url)
    path = f"{parts.path.rstrip('/').removesuffix(PATH)}/client/console"
    scheme = "wss" if parts.scheme == "https" else "ws"
    return parts._replace(scheme=scheme, path=path, query=urlencode({"token": token})).geturl()


@contextmanager
def _connected(connection: Connection, token: str) -> Iterator[ClientConnection]:
    url = console_url(connection.url, token)
    tls = None
    if url.startswith("wss"):
        tls = ssl.create_default_context(cafile=os.environ.get("REQUESTS_CA_BUNDLE"))
        if not connection.verifycert:
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    with ExitStack() as stack:
        try:
            made = connect(url, ssl=tls, compression=None, user_agent_header="bulkmonkey")
            opened = stack.enter_context(made)
        except (OSError, InvalidHandshake, InvalidMessage) as error:
            hint = "A proxy in front of the API must pass websockets at /client/console"
            raise ConnectionFailed(f"no console at {url.partition('?')[0]}: {error}", hint=hint) from error
        yield opened


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Set the terminal to raw mode until the block ends, so that every key, also Ctrl-C, is sent to the guest."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _carry(socket: ClientConnection) -> str:
    """Copy data between the terminal and the console until the connection ends.

    Returns the reason if the server rejected the connection, otherwise an empty text.
    """
    ended = threading.Event()
    typing = threading.Thread(target=_type, args=(socket, ended), daemon=True)
    typing.start()
    try:
        for message in socket:
            sys.stdout.buffer.write(message if isinstance(message, bytes) else message.encode())
            sys.stdout.buffer.flush()
    except ConnectionClosed as error:
        if error.rcvd is not None and error.rcvd.code in REFUSED:
            return error.rcvd.reason
    finally:
        ended.set()
        typing.join()
    return ""


def _type(socket: ClientConnection, ended: threading.Event) -> None:
    """Send typed text to the console until the input ends. Output of the guest is still read after that."""
    typed_at = sys.stdin.fileno()
    while not ended.is_set():
        if not select.select([typed_at], [], [], POLL_S)[0]:
            continue
        data = os.read(typed_at, CHUNK_BYTES)
        if not data:
            return
        typed, hang_up, _ = data.partition(HANG_UP)
        if typed:
            socket.send(typed)
        if hang_up:
            socket.close()
            return
