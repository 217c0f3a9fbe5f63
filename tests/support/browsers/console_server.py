"""A console and the API behind it, before a database of its own, in threads of the test process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from bulkdeploy.api.app import create_app
from bulkdeploy.console.app import with_console
from bulkdeploy.console.calls import Wsgi
from bulkdeploy.services.system import Cipher, System
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.support.api.api_server import serving
from tests.support.hypervisors.drivers import SIMULATED
from tests.support.processes.services import database_clone

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


@dataclass
class OwnConsole:
    """A console, its database, and where it is served.

    Attributes:
        is_cut_off: set it, and the API finds no database.
    """

    url: str
    engine: Engine
    is_cut_off: bool = False


@contextmanager
def own_console(
    postgres_url: str, template: str, redis_url: str, cipher: Cipher, folder: Path
) -> Iterator[OwnConsole]:
    """Serve a console before a copy of the database ``template``."""

    def application(database: str) -> tuple[Wsgi, Engine]:
        engine = create_engine(database, pool_size=10)
        settings = Settings(database_url=database, redis_url=redis_url, data_dir=folder)
        system = System(engine, build_job_queue(settings), cipher, folder, SIMULATED)
        return with_console(create_app(system)), engine

    with database_clone(postgres_url, template) as database:
        (there, engine), (cut_off, nothing) = application(database), application(NOWHERE)
        console = OwnConsole("", engine)

        def serve(environ: dict[str, Any], start_response: Any) -> Any:
            return (cut_off if console.is_cut_off else there)(environ, start_response)

        with serving(serve) as console.url:
            yield console
        engine.dispose()
        nothing.dispose()
