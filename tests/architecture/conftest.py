"""Rules about the project's own files."""

import pytest


@pytest.fixture(scope="package", autouse=True)
def one_process() -> None:
    """Keep the tests of this folder in one process of a run on several: each process would parse all files anew."""
