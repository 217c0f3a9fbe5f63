"""Calls that build infrastructure, and what they leave in the database."""

from itertools import count
from typing import Any

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.services.auditing.audit import audit
from bulkdeploy.services.system import Cipher
from tests.support.api.api_client import ApiFailure
from tests.support.zones.world import World

TABLES = (
    *(
        "zones",
        "pods",
        "clusters",
        "hosts",
        "storage_pools",
        "image_stores",
        "dedicated_resources",
        "affinity_groups",
    ),
    *("service_offerings", "disk_offerings", "network_offerings", "physical_networks", "networks", "ip_ranges"),
    *("traffic_types", "network_service_providers"),
    *("host_capacity", "configuration_values", "async_jobs", "events"),
)
_numbers = count(1)


class Cloud(World):
    """A world that is built by calls."""

    def __init__(self, engine: Engine, url: str, cipher: Cipher, driver: SimulatorDriver) -> None:
        super().__init__(engine, url, cipher)
        self.driver = driver

    def make(self, command: str, by: str = "admin", **parameters: object) -> dict[str, Any]:
        """The one object that a call made or changed, however its answer wraps it; of a job, its result's."""
        body = self.client(by).call(command, **parameters)
        if "jobid" in body:
            job = self.client(by).call("queryAsyncJobResult", jobid=body["jobid"])
            assert (job["jobstatus"], job["jobresultcode"]) == (1, 0)
            body = job["jobresult"]
        (found,) = [value for key, value in body.items() if key != "count"]
        return dict(found[0] if isinstance(found, list) else found) if found is not True else {}

    def done(self, command: str, **parameters: Any) -> None:
        """A call that succeeds with nothing to show."""
        assert self.make(command, **parameters) == {}

    def refused(self, command: str, by: str = "admin", **parameters: object) -> ApiFailure:
        """How a call is refused; it has changed nothing."""
        before = self.state()
        with pytest.raises(ApiFailure) as caught:
            self.client(by).call(command, **parameters)
        assert self.state() == before
        return caught.value

    def state(self) -> Any:
        """Everything that calls on infrastructure may change, as one value."""
        sums = ", ".join(
            f"(SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM {name} t)" for name in TABLES
        )
        with self.engine.connect() as connection:
            return tuple(connection.execute(text(f"SELECT {sums}")).one())

    def zone(self, **more: Any) -> dict[str, Any]:
        """A zone of its own name."""
        given: dict[str, Any] = {"name": f"zone-{next(_numbers)}", "networktype": "Advanced", "dns1": "10.0.0.2"}
        return self.make("createZone", **{**given, "internaldns1": "10.0.0.3", **more})

    def pod(self, zone: str, **more: Any) -> dict[str, Any]:
        """A pod of its own name, without a management network."""
        return self.make("createPod", **{"zoneid": zone, "name": f"pod-{next(_numbers)}", **more})

    def cluster(self, pod: dict[str, Any], **more: object) -> dict[str, Any]:
        """A cluster of simulated hosts, of its own name."""
        place = {"zoneid": pod["zoneid"], "podid": pod["id"], "clustername": f"cluster-{next(_numbers)}"}
        kind = {"clustertype": "CloudManaged", "hypervisor": "Simulator"}
        return self.make("addCluster", **{**place, **kind, **more})

    def host(self, cluster: dict[str, Any], **more: object) -> dict[str, Any]:
        """A simulated host of its own name."""
        place = {name: cluster[name] for name in ("zoneid", "podid")}
        given = {"clusterid": cluster["id"], "hypervisor": "Simulator", "url": f"http://rack/h{next(_numbers)}"}
        return self.make("addHost", **{**place, **given, "username": "root", "password": "password", **more})

    def assert_intact(self) -> None:
        """The audit finds nothing."""
        findings = audit(self.engine, [self.driver])
        broken = {finding.name: finding.breaches for finding in findings if finding.breaches}
        assert broken == {}, broken
