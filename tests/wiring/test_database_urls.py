"""The database's URL: whatever libpq reads, all programs and drivers read."""

from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from bulkdeploy.store.database.database_url import database_parameters
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.settings import Settings
from tests.support.processes.programs import bulkdeploy


@pytest.mark.long
def test_of_several_servers_the_one_that_takes_writes_is_used(
    settings: Settings, database_url: str, tmp_path: Path
) -> None:
    """Two servers with ports, of which the first does not answer: engine, command and simulator use the other."""
    found = database_parameters(database_url)
    there = f"{quote(found['host'], safe='')}:{found.get('port', '5432')}"
    name = make_url(database_url).database
    url = f"postgresql://{found['user']}@127.0.0.1:1,{there}/{name}?target_session_attrs=read-write"
    engine = create_engine(url, pool_size=1)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT current_database()")).scalar_one() == name
    engine.dispose()
    several = settings.model_copy(update={"database_url": url, "data_dir": tmp_path})
    ended = bulkdeploy(several, "audit")
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout


def test_what_the_url_says_of_sessions_holds(database_url: str) -> None:
    """Its ``options`` hold beside the engine's own, and before them; so do its other parameters."""
    said = quote("-c lock_timeout=7s")
    engine = create_engine(f"{database_url}&options={said}&keepalives_idle=33", pool_size=1)
    with engine.connect() as connection:
        shown = [
            connection.execute(text(f"SHOW {name}")).scalar_one()
            for name in ("lock_timeout", "idle_in_transaction_session_timeout")
        ]
        session = connection.connection.driver_connection
        assert isinstance(session, psycopg.Connection)
        parameters = session.info.get_parameters()
    engine.dispose()
    assert (*shown, parameters["keepalives_idle"]) == ("7s", "1min", "33")
