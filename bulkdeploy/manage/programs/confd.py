"""``bulkdeploy confd``: answers queries for the hosts of VMs over UDP, even if the database is unreachable."""

import signal
import socket
import threading
from typing import TYPE_CHECKING

import click

from bulkdeploy.manage.configuration import service_settings

if TYPE_CHECKING:
    from bulkdeploy.confd.server import Reader


@click.command()
@click.pass_context
def confd(ctx: click.Context) -> None:
    """Answer confd queries (docs/reference/confd.md) until SIGTERM. Run one process on each of confd_servers."""
    from bulkdeploy.confd.server import Reader, serve
    from bulkdeploy.wiring.logs import configure_logging
    from bulkdeploy.wiring.system import build_engine

    settings = service_settings(ctx, "database_url", "confd_key_file")
    assert settings.confd_key_file is not None  # noqa: S101 - required above
    configure_logging(settings)
    try:
        key = settings.confd_key_file.read_bytes()
    except OSError as error:
        raise click.ClickException(f"confd_key_file cannot be read: {error}") from error
    bound = _bound_socket(settings.confd_listen)
    engine = build_engine(settings, application_name="bulkdeploy confd")
    reader = Reader(engine, settings.confd_servers, interval_s=settings.confd_refresh_seconds)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    failures: list[Exception] = []
    reading = threading.Thread(target=_read, args=(reader, ended, failures), name="confd reader")
    reading.start()
    host, _, _ = settings.confd_listen.rpartition(":")
    click.echo(f"Answering at {host}:{bound.getsockname()[1]}")
    try:
        serve(bound, key, reader, ended, stale_after_s=settings.confd_stale_seconds)
    finally:
        reader.end()
        reading.join()
        engine.dispose()
    if failures:
        raise failures[0]


def _bound_socket(listen: str) -> socket.socket:
    """Return a socket that is bound to an address, with a timeout of a second.

    Raises:
        ClickException: the address cannot be used.
    """
    host, _, port = listen.rpartition(":")
    address = host.strip("[]")
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        bound.bind((address, int(port)))
    except OSError as error:
        raise click.ClickException(f"confd_listen {listen} cannot be used: {error}") from error
    bound.settimeout(1)
    return bound


def _read(reader: "Reader", ended: threading.Event, failures: list[Exception]) -> None:
    """Run the reader until the program ends.

    An error of the reader is appended to ``failures`` and ends the program.
    """
    try:
        reader.run()
    except Exception as error:  # noqa: BLE001 - whatever it is, the program must end with it
        failures.append(error)
    finally:
        ended.set()
