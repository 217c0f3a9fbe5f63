"""Jobs of the recorded server: batches whose jobs finish one after the other, some of them badly."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.cli.recorded_answers import ADMIN, CLUSTERS, HOSTS, POD, ZONE

BEGAN = datetime(2026, 4, 10, 14, 27, 14, tzinfo=UTC)
CREATED = f"{BEGAN:%Y-%m-%dT%H:%M:%S%z}"
INSUFFICIENT_CAPACITY = {"errorcode": 533, "errortext": "Unable to create a deployment for VM instance"}


@dataclass(slots=True)
class Batch:
    """Alike jobs. Job n finishes ``(n + 1) / rate`` seconds after ``started`` by the server's clock."""

    count: int
    started: float
    rate: float
    failing: Collection[int]
    reason: dict[str, Any]
    deployment: str = ""
    name: str | None = None
    seed: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    finished: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Rows that will not change any more, so that following many jobs measures the client and not this server."""

    def job_id(self, number: int) -> str:
        """The id of a job."""
        return f"{self.seed}-0000-4000-8000-{number:012x}"

    def vm_id(self, number: int) -> str:
        """The id of a job's VM."""
        return f"{self.seed}-0000-4000-9000-{number:012x}"

    def status(self, number: int, now: float) -> int:
        """0, 1 or 2, as the protocol counts."""
        if now - self.started < (number + 1) / self.rate:
            return 0
        return 2 if number in self.failing else 1

    def vm(self, number: int, now: float) -> dict[str, Any]:
        """The VM of a job."""
        states = {0: "Starting", 1: "Running", 2: "Error"}
        status = self.status(number, now)
        vm = {"id": self.vm_id(number), "name": self.name or f"vm-{self.seed}-{number}", "state": states[status],
              "zoneid": ZONE, "zonename": "Demo", "nic": []}  # fmt: skip
        return vm | ({"hostid": HOSTS[number % 3], "hostname": f"kvm-{number % 3 + 1}"} if status == 1 else {})

    def row(self, number: int, now: float) -> dict[str, Any]:
        """A job as lists and queries show it."""
        if number in self.finished:
            return self.finished[number]
        status = self.status(number, now)
        row: dict[str, Any] = {
            "jobid": self.job_id(number), "accountid": ADMIN, "userid": ADMIN, "jobstatus": status,
            "cmd": "org.apache.cloudstack.api.command.admin.vm.DeployVMCmdByAdmin",
            "jobresultcode": 530 if status == 2 else 0, "jobinstancetype": "VirtualMachine",
            "jobinstanceid": self.vm_id(number), "created": CREATED,
        }  # fmt: skip
        if self.deployment:
            row["deploymentid"] = self.deployment
        if status:
            done = BEGAN + timedelta(seconds=(number + 1) / self.rate)
            result = self.reason if status == 2 else {"virtualmachine": self.vm(number, now)}
            row |= {"jobresulttype": "object", "jobresult": result, "completed": f"{done:%Y-%m-%dT%H:%M:%S%z}"}
            self.finished[number] = row
        return row

    def summary(self, now: float) -> dict[str, Any]:
        """The batch as a whole, where the server knows deployments."""
        done = max(min(self.count, int((now - self.started) * self.rate)), 0)
        failed = [number for number in sorted(self.failing) if number < done]
        running = min(self.count - done, 20)
        return {
            "id": self.deployment, "zoneid": ZONE, "zonename": "Demo", "account": "admin",
            "created": CREATED, "state": "InProgress" if done < self.count else "Completed",
            "asked": self.count, "count": self.count, "queued": self.count - done - running, "running": running,
            "succeeded": done - len(failed), "failed": len(failed), "skew": 2, "clusters": spread(self.count),
            "failures": [
                {"jobid": self.job_id(n), "virtualmachineid": self.vm_id(n), **self.reason} for n in failed[:100]
            ],
        }  # fmt: skip


def spread(count: int) -> list[dict[str, Any]]:
    """What each cluster gets of so many VMs; the last has no room left."""
    clusters = []
    for n in range(3):
        added = len(range(n, count, 3))
        place = {"clusterid": CLUSTERS[n], "clustername": f"cluster-{n + 1}", "podid": POD, "podname": "pod-a"}
        clusters.append({**place, "before": n, "added": added, "after": n + added, "capacity": 10_000})
    full = {"clusterid": POD, "clustername": "cluster-full", "podid": POD, "podname": "pod-b"}
    return [*clusters, {**full, "before": 40, "added": 0, "after": 40, "capacity": 0}]


def plan(count: int) -> dict[str, Any]:
    """What a dry run answers."""
    memory = {"reason": "memory", "text": "too little memory is free", "remedy": "free or add hosts"}
    excluded = [{**memory, "hosts": 4}, {"reason": "moon_phase", "hosts": 1}]
    return {"count": count, "fits": min(count, 30_000), "clusters": spread(count), "excluded": excluded}


@dataclass(slots=True)
class JobBook:
    """All batches; ``rate`` and ``failing`` are those of the next one."""

    rate: float = 1000.0
    failing: Collection[int] = ()
    reason: dict[str, Any] = field(default_factory=lambda: INSUFFICIENT_CAPACITY)
    """Why those fail that do."""
    hide_finished: bool = False
    """Whether lists leave finished jobs out, as some servers do."""
    batches: list[Batch] = field(default_factory=list)

    def start(self, count: int, now: float, *, deployment: bool = False, names: str | None = None) -> Batch:
        """A new batch."""
        batch = Batch(
            count, now, self.rate, self.failing, self.reason, str(uuid.uuid4()) if deployment else "", names
        )
        self.batches.append(batch)
        return batch

    def places(self, deployment: str | None, now: float) -> list[tuple[Batch, int]]:
        """Jobs, of one deployment or all, by their batch and number."""
        return [
            (batch, number)
            for batch in self.batches
            if deployment is None or batch.deployment == deployment
            for number in range(batch.count)
            if not (self.hide_finished and batch.status(number, now))
        ]

    def find(self, job_id: str, now: float) -> dict[str, Any] | None:
        """One job."""
        for batch in self.batches:
            if job_id.startswith(batch.seed):
                return batch.row(int(job_id[-12:], 16), now)
        return None

    def virtual_machines(self, parameters: dict[str, str], now: float) -> list[dict[str, Any]]:
        """VMs, by id or name where that is asked."""
        return [
            vm
            for batch in self.batches
            for number in range(batch.count)
            if (vm := batch.vm(number, now))
            and parameters.get("id", vm["id"]) == vm["id"]
            and parameters.get("name", vm["name"]) == vm["name"]
        ]
