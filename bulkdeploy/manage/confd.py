"""``bulkdeploy confd``: where every VM is, on UDP, also while the database is away."""

import signal
import socket
import threading

import click

from bulkdeploy.manage.configuration import require, settings_of


@click.command()
@click.pass_context
def confd(ctx: click.Context) -> None:
    """Answer confd queries (docs/confd.md) until SIGTERM. Run one on each of confd_servers."""
    from bulkdeploy.confd.server import Reader, serve
    from bulkdeploy.wiring.logs import configure_logging
    from bulkdeploy.wiring.system import build_engine

    settings = settings_of(ctx)
    require(settings, "database_url", "confd_key_file")
    assert settings.confd_key_file is not None  # noqa: S101 - required above
    configure_logging(settings)
    try:
        key = settings.confd_key_file.read_bytes()
    except OSError as error:
        raise click.ClickException(f"confd_key_file cannot be read: {error}") from error
    host, _, port = settings.confd_listen.rpartition(":")
    address = host.strip("[]")
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        bound.bind((address, int(port)))
    except OSError as error:
        raise click.ClickException(f"confd_listen {settings.confd_listen} cannot be used: {error}") from error
    bound.settimeout(1)
    engine = build_engine(settings, application_name="bulkdeploy confd")
    reader = Reader(engine, settings.confd_servers, interval_s=settings.confd_refresh_seconds)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    failures: list[Exception] = []

    def read() -> None:
        try:
            reader.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the program must end with it
            failures.append(error)
        finally:
            ended.set()

    reading = threading.Thread(target=read, name="confd reader")
    reading.start()
    click.echo(f"Answering at {host}:{bound.getsockname()[1]}")
    try:
        serve(bound, key, reader, ended, stale_after_s=settings.confd_stale_seconds)
    finally:
        reader.end()
        reading.join()
        engine.dispose()
    if failures:
        raise failures[0]
