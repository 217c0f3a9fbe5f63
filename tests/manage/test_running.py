"""What commands make of a data directory that is not theirs."""

import os
from pathlib import Path

from bulkdeploy.manage.running import with_running_services
from bulkdeploy.wiring.settings import Settings


def test_an_unreadable_data_directory_is_left_alone(tmp_path: Path) -> None:
    """Where data_dir cannot be looked into, a command works with the settings it was given."""
    settings = Settings(data_dir=tmp_path / "data", database_url="postgresql://there/name")
    settings.data_dir.mkdir(mode=0o000)
    somebody = 65534
    account = os.geteuid()
    if account == 0:
        os.seteuid(somebody)
    try:
        assert with_running_services(settings) == settings
    finally:
        if account == 0:
            os.seteuid(account)
