"""Loading zone files into databases of tests."""

from pathlib import Path
from typing import cast

from sqlalchemy import Engine

from bulkdeploy.manage.zone_files.loading import LoadReport, load_zone_file
from bulkdeploy.queue.job_queue import JobQueue
from bulkdeploy.services.system import Cipher, System
from tests.support.hypervisors.drivers import SIMULATED


def load_zone(engine: Engine, cipher: Cipher, path: Path) -> LoadReport:
    """Load a file where no hypervisor is behind any host, and no job is made."""
    return load_zone_file(System(engine, cast("JobQueue", None), cipher, path.parent, SIMULATED), path)
