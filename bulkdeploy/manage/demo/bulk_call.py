"""The demonstration's bulk call, made and followed like the call of any other client."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bulkdeploy.cli.connection.transport import Transport
from bulkdeploy.cli.deployments.spread import ClusterSpread, read_spread
from bulkdeploy.manage.demo.own_api import list_all

OFFERING = "Small"
TEMPLATE = "Debian 12 (KVM)"
NETWORK = "guests"
OWNER = "admin"
MOST_REASONS = 5
ALREADY_THERE = {"a-kvm-1": 14, "a-kvm-2": 9, "b-kvm-1": 3, "b-kvm-2": 1}
"""VMs that the demonstration begins with, by cluster."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The numbers of jobs of a deployment by state."""

    queued: int
    running: int
    succeeded: int
    failed: int

    @property
    def done(self) -> bool:
        """Return whether all jobs have ended."""
        return self.queued == self.running == 0


class BulkCall:
    """A bulk deploy call of the demonstration, with its progress and its result."""

    def __init__(self, api: Transport) -> None:
        self._api = api
        self._deployment: dict[str, Any] = {}
        self._filling: list[str] = []
        self._requested = 0
        self._before: Counter[str] = Counter()
        self.progress_seen = Progress(0, 0, 0, 0)

    def fill(self) -> None:
        """Deploy VMs into some clusters of the sample zone, so that these are fuller before the bulk call.

        Raises:
            cli.failures.ApiRefused: the API rejected a call.
        """
        self._filling = [
            self._request(count, clusterid=self._only("listClusters", "cluster", name=cluster))
            for cluster, count in ALREADY_THERE.items()
        ]

    def is_filled(self) -> bool:
        """Return whether all jobs that ``fill`` created have ended."""
        return all(one["queued"] == one["running"] == 0 for one in map(self._read, self._filling))

    def deploy(self, count: int) -> None:
        """Deploy ``count`` VMs in the sample zone as the administrator.

        Raises:
            cli.failures.ApiRefused: the API rejected a call.
        """
        self._requested = count
        self._before = self._vms_per_cluster()
        self._deployment = self._read(self._request(count))

    def _request(self, count: int, **place: str) -> str:
        """Request a deployment of ``count`` VMs and return the id of the deployment."""
        jobs = self._api.call(
            "bulkDeployVirtualMachine",
            {
                "zoneid": self._only("listZones", "zone", name="demo"),
                "serviceofferingid": self._only("listServiceOfferings", "serviceoffering", name=OFFERING),
                "templateid": self._only("listTemplates", "template", name=TEMPLATE, templatefilter="executable"),
                "networkids": self._only("listNetworks", "network", keyword=NETWORK),
                "virtualmachinecount": str(count),
                **place,
            },
        )["asyncjobs"]
        return str(jobs[0]["deploymentid"])

    def progress(self) -> Progress:
        """Return the present numbers of the deployment's jobs by state."""
        self._deployment = self._read(self._deployment["id"])
        numbers = (self._deployment[name] for name in ("queued", "running", "succeeded", "failed"))
        self.progress_seen = Progress(*numbers)
        return self.progress_seen

    def spread(self) -> list[ClusterSpread]:
        """Return the spread of VMs, counted from listVirtualMachines and listHosts independently of the planner."""
        after = self._vms_per_cluster()
        return [
            replace(one, before=self._before[one.name], added=after[one.name] - self._before[one.name])
            for one in read_spread(self._deployment)
        ]

    def problems(self, spread: list[ClusterSpread]) -> list[str]:
        """Return the problems of the deployment as texts, or an empty list if there are none."""
        found = [f"job {one['jobid']}: {one['errortext']}" for one in self._deployment.get("failures", ())]
        if len(found) > MOST_REASONS:
            found[MOST_REASONS:] = [f"... and {len(found) - MOST_REASONS} more"]
        if self.progress_seen.succeeded != self._requested:
            found.append(f"{self.progress_seen.succeeded} of {self._requested} jobs succeeded")
        if (arrived := sum(one.added for one in spread)) != self._requested:
            found.append(f"{arrived} of {self._requested} VMs are on eligible clusters")
        return found + uneven(spread)

    def _read(self, deployment_id: str) -> dict[str, Any]:
        (found,) = self._api.call("listBulkDeployments", {"id": deployment_id})["bulkdeployment"]
        return dict(found)

    def _only(self, command: str, noun: str, **parameters: str) -> str:
        """Return the id of the object with the name or keyword in ``parameters``."""
        found = [
            row
            for row in list_all(self._api, command, noun, **parameters)
            if row["name"] in (parameters.get("name"), parameters.get("keyword"))
        ]
        return str(found[0]["id"])

    def _vms_per_cluster(self) -> Counter[str]:
        """Return the number of the owner's VMs on hosts, by name of cluster."""
        clusters = {
            row["id"]: row["clustername"] for row in list_all(self._api, "listHosts", "host", type="Routing")
        }
        rows = list_all(self._api, "listVirtualMachines", "virtualmachine", listall="true")
        return Counter(clusters[row["hostid"]] for row in rows if row.get("hostid") and row["account"] == OWNER)


def uneven(spread: Sequence[ClusterSpread]) -> list[str]:
    """Return the violations of an even spread as texts, or an empty list if there are none.

    A cluster that received a VM must not have more than one VM more than an eligible cluster with free capacity.
    """
    roomy = [one for one in spread if one.left > 0]
    if not roomy:
        return []
    lowest = min(roomy, key=lambda one: one.after)
    return [
        f"{one.name} got {one.added} and has {one.after}, while {lowest.name} has {lowest.after} and had room"
        for one in spread
        if one.added and one.after > lowest.after + 1
    ]
