"""What tests before a CloudStack share: every hypervisor type is driven through it."""

from dataclasses import replace

import pytest

from bulkdeploy.services.system import System
from tests.support.hypervisors.drivers import OF_CLOUDSTACK


@pytest.fixture
def system(system: System) -> System:
    """The system of other tests, with the drivers that imports need."""
    return replace(system, drivers=OF_CLOUDSTACK)
