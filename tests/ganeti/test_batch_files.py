"""Entries of ``gnt-instance batch-create``, given to bulkmonkey, on a live cluster: ``make test-ganeti``."""

import json
from pathlib import Path

from tests.ganeti.live import gnt, mirrored_cluster, needs_cluster
from tests.ganeti.service import PATIENCE_OF_MANY_S, bulkmonkey, ganeti_cloud, instances

pytestmark = needs_cluster


def test_parameters_of_disks_and_nics_reach_the_cluster(tmp_path: Path) -> None:
    """The instance has the volume group of its disk, and the mode and link of its nic, that its entry names."""
    entry = {
        "instance_name": "web1.example.com",
        "os_type": "noop",
        "disk_template": "drbd",
        "disks": [{"size": "1g", "vg": "fast", "metavg": "fast"}],
        "nics": [{"network": "guests", "mode": "routed", "link": "table7"}],
    }
    file = tmp_path / "instances.json"
    file.write_text(json.dumps([entry]))
    with mirrored_cluster(), ganeti_cloud(tmp_path, "drbd") as cloud:
        words = ("batch-create", str(file), "zone=ganeti", "serviceoffering=Tiny")
        monkey = bulkmonkey(cloud, tmp_path / "home", *words)
        printed, _ = monkey.communicate(timeout=PATIENCE_OF_MANY_S)
        assert monkey.returncode == 0, printed
        (name,) = instances()
        info = gnt("gnt-instance", "info", name)
        cloud.destroy_all()
    assert "fast/" in info, info
    assert "mirrored/" not in info, info
    assert "mode: routed" in info, info
    assert "link: table7" in info, info
