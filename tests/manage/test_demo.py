"""Promises of the demonstration."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bulkdeploy.wiring.settings import Settings
from tests.support.processes.programs import bulkdeploy


@pytest.mark.long
def test_demonstration_succeeds_and_can_be_repeated_on_its_data(server_folder: Path) -> None:
    """Two calls in a row on the same data both succeed, and what the first added is there before the second.

    Services that are configured (here they do not even answer) have no part in it.
    """
    data, picture = server_folder / "data", server_folder / "spread.svg"
    settings = Settings(
        data_dir=data,
        api_processes=1,
        worker_processes=1,
        database_url="postgresql://nobody@127.0.0.1:1/cloud",
        redis_url="redis://127.0.0.1:1/0",
        drivers={"default": "simulator"},
        driver={"simulator": {"url": "postgresql://nobody@127.0.0.1:1/cloud_simulator"}},
    )
    arguments = ("demo", "--count", "24", "--data-dir", str(data), "--svg", str(picture))
    titles = []
    for _ in range(2):
        ended = bulkdeploy(settings, *arguments)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "24 jobs succeeded, 0 failed" in ended.stdout
        root = ElementTree.fromstring(picture.read_text())  # noqa: S314 - we made it
        titles.append(root.attrib["aria-label"])
    assert all(title.startswith("One call, 24 VMs: 24 VMs over") for title in titles)
    assert titles[0] != titles[1]
