"""Real guests under load while workers and hosts die: what every driver's chaos has in common.

Then everything comes to rest, and rows, hosts and guests must agree: exit code 1 on any breach.
"""

import os
import random
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.support.api.api_client import ApiFailure
from tests.support.hypervisors.real_cloud import RealCloud, RealHosts, real_cloud
from tests.support.processes.programs import bulkdeploy
from tests.support.runs.waiting import say

MOST_VMS = 14
WORKERS = 2
REST_S = 240.0
"""How long everything may take to come to rest."""

NOT_DONE_S = 0.4, 1.5
"""Seconds between two calls of the load."""

SNAPSHOTS = 0.4
"""Share of the calls about a VM that are about its snapshots."""

OF_VM_SNAPSHOTS = "revertToVMSnapshot", "deleteVMSnapshot"
OF_SNAPSHOTS = "revertSnapshot", "deleteSnapshot"
REVERTS = "revertToVMSnapshot", "revertSnapshot"

BREAKS_S = 4.0, 8.0
"""Seconds between two accidents."""

PASSING = ("Starting", "Stopping", "Migrating", "Expunging")
REFUSED = (431, 533, 534)
"""Statuses of calls that came at the wrong moment, which is theirs to say."""


@dataclass
class Trial(ABC):
    """One run. The load and the accidents each have a thread and a stream of chance."""

    cloud: RealCloud[Any]
    seed: int
    ends: float
    done: Counter[str] = field(default_factory=Counter)
    breaches: list[str] = field(default_factory=list)
    may_be_stopped: set[str] = field(default_factory=set)
    """VMs that the load has stopped or reverted at least once."""

    def surroundings(self) -> AbstractContextManager[object]:
        """Return the context in which the trial runs, from before the load until everything has come to rest."""
        return nullcontext()

    # The load

    def load(self) -> None:
        """Deploy, destroy, stop, start, move and snapshot VMs, a call at a time."""
        chance = random.Random(self.seed)  # noqa: S311 - to be repeated
        while time.monotonic() < self.ends:
            try:
                self._call(chance)
            except ApiFailure as error:
                self.done[f"refused ({error.status})"] += 1
                if error.status not in REFUSED:
                    self.breaches.append(f"a call was answered {error.status}: {error.errortext}")
            time.sleep(chance.uniform(*NOT_DONE_S))

    def _call(self, chance: random.Random) -> None:
        client, vms = self.cloud.client, self.cloud.vms()
        if len(vms) < chance.randrange(MOST_VMS):
            count = chance.randrange(1, 5)
            client.call("bulkDeployVirtualMachine", virtualmachinecount=count, **self.cloud.ids)
            self.done["deployed VMs"] += count
            return
        steady = [vm for vm in vms if vm["state"] in ("Running", "Stopped")]
        if not steady:
            return
        vm = chance.choice(steady)
        if chance.random() < SNAPSHOTS:
            command, parameters = chance.choice(self._calls_of_snapshots(vm, with_memory=chance.random() < 0.5))
            if command in REVERTS:
                self.may_be_stopped.add(vm["id"])
            client.call(command, **parameters)
            self.done[command] += 1
            return
        calls: Mapping[str, dict[str, Any]] = {
            "destroyVirtualMachine": {"id": vm["id"], "expunge": True},
            "migrateVirtualMachine": {"virtualmachineid": vm["id"], "autoselect": True},
            "stopVirtualMachine": {"id": vm["id"], "forced": chance.random() < 0.5},
            "startVirtualMachine": {"id": vm["id"]},
        }
        names = ["startVirtualMachine", "destroyVirtualMachine"]
        if vm["state"] == "Running":
            names = [
                "migrateVirtualMachine",
                "migrateVirtualMachine",
                "stopVirtualMachine",
                "destroyVirtualMachine",
            ]
        command = chance.choice(names)
        if command == "stopVirtualMachine":
            self.may_be_stopped.add(vm["id"])
        client.call(command, **calls[command])
        self.done[command] += 1

    def _calls_of_snapshots(self, vm: Mapping[str, Any], *, with_memory: bool) -> list[tuple[str, dict[str, Any]]]:
        """What may be asked for of a VM's snapshots, and of its root volume's; some are refused in its state."""
        client = self.cloud.client
        whole = client.call("listVMSnapshot", virtualmachineid=vm["id"]).get("vmSnapshot", ())
        roots = client.call("listVolumes", virtualmachineid=vm["id"], type="ROOT").get("volume", ())
        of_roots = [
            one for root in roots for one in client.call("listSnapshots", volumeid=root["id"]).get("snapshot", ())
        ]
        memory = with_memory and vm["state"] == "Running"
        return [
            ("createVMSnapshot", {"virtualmachineid": vm["id"], "snapshotmemory": memory}),
            *(("createSnapshot", {"volumeid": root["id"]}) for root in roots),
            *((name, {"vmsnapshotid": one["id"]}) for one in whole for name in OF_VM_SNAPSHOTS),
            *((name, {"id": one["id"]}) for one in of_roots for name in OF_SNAPSHOTS),
        ]

    # The accidents

    @abstractmethod
    def accidents(self) -> Sequence[Callable[[random.Random], str]]:
        """What may happen to the hosts; each is over when it returns, and says what it was."""

    @abstractmethod
    def remains(self) -> list[str]:
        """What is left on the hosts once all VMs are gone."""

    def break_things(self) -> None:
        """One accident after the other; each is over before the next."""
        chance = random.Random(self.seed + 1)  # noqa: S311 - to be repeated
        accidents = [self._kill_worker, *self.accidents()]
        while time.monotonic() < self.ends:
            time.sleep(chance.uniform(*BREAKS_S))
            what = chance.choice(accidents)(chance)
            self.done[what.partition(":")[0]] += 1
            say(f"{self.ends - time.monotonic():6.0f} s to go  {what}")

    def _kill_worker(self, chance: random.Random) -> str:
        pids = self.cloud.stack.supervisor.pids()
        name = chance.choice([name for name in sorted(pids) if name.startswith("worker")] or ["sweeper"])
        if name in pids:
            with suppress(ProcessLookupError):
                os.kill(pids[name], signal.SIGKILL)
        return f"killed a worker: {name}"

    # The end

    def come_to_rest(self) -> None:
        """Wait until nothing is under way; what then does not agree is a breach."""
        if not self.cloud.wait_until(lambda: not self._differences(), REST_S):
            self.breaches += [f"{REST_S:.0f} s later still: {one}" for one in self._differences()]
        self.breaches += self.broken_promises()
        self._audit("after the trial")
        for vm in self.cloud.vms():
            self.cloud.client.call("destroyVirtualMachine", id=vm["id"], expunge=True)
        if not self.cloud.wait_until(lambda: not self.cloud.vms() and not self._differences(), REST_S):
            self.breaches.append(f"VMs cannot be destroyed: {[vm['state'] for vm in self.cloud.vms()]}")
        self.breaches += [f"left on the hosts: {one}" for one in self.remains()]
        self._audit("with everything gone")

    def broken_promises(self) -> list[str]:
        """Return what is wrong with VMs that have come to rest, by promises of this hypervisor alone."""
        return []

    def _differences(self) -> list[str]:
        """What is under way, and where rows and processes differ."""
        found = [f"VM {vm['id']} is {vm['state']}" for vm in self.cloud.vms() if vm["state"] in PASSING]
        jobs = self.cloud.client.call("listAsyncJobs", listall=True, pagesize=-1).get("asyncjobs", ())
        found += [f"job {job['jobid']} of {job['cmd']} has not ended" for job in jobs if not job["jobstatus"]]
        hosts = self.cloud.client.call("listHosts", type="Routing")["host"]
        found += [f"host {host['name']} is {host['state']}" for host in hosts if host["state"] != "Up"]
        running = {UUID(vm["id"]): str(vm["hostname"]) for vm in self.cloud.vms() if vm["state"] == "Running"}
        try:
            there = self.cloud.hosts.running()
        except AssertionError as twice:
            return [*found, str(twice)]
        for guest in running.keys() | there.keys():
            if running.get(guest) != there.get(guest):
                found.append(f"guest {guest} runs on {there.get(guest)}, its VM on {running.get(guest)}")
        return found

    def _audit(self, when: str) -> None:
        audited = bulkdeploy(self.cloud.stack.settings, "audit")
        say(f"audit {when}: {'discrepancies' if audited.returncode else 'nothing found'}")
        if audited.returncode:
            lines = [line for line in audited.stdout.splitlines() if not line.startswith("true")]
            self.breaches.append("\n".join([f"the audit {when}:", *lines, audited.stderr]))


def run_trial(hosts: RealHosts, make: Callable[[RealCloud[Any], int, float], Trial]) -> None:
    """Run one trial on these hosts, as SEED and MINUTES say, and end the program."""
    seed, minutes = int(os.environ.get("SEED") or time.time()), float(os.environ.get("MINUTES") or 10)
    say(f"DRIVER={hosts.driver} SEED={seed} MINUTES={minutes:g}")
    with real_cloud(hosts, workers=WORKERS) as cloud:
        trial = make(cloud, seed, time.monotonic() + minutes * 60)
        with trial.surroundings():
            threads = [threading.Thread(target=work, daemon=True) for work in (trial.load, trial.break_things)]
            for thread in threads:
                thread.start()
            cloud.wait_until(lambda: not any(thread.is_alive() for thread in threads), minutes * 60 + REST_S)
            trial.come_to_rest()
        log = (cloud.folder / "programs.log").read_text()
        if "Traceback" in log:
            trial.breaches.append("there is a traceback in the programs' log")
        if trial.breaches:
            kept = cloud.folder.with_suffix(".log")
            kept.write_text(log)
            say(f"log: {kept}")
    for what, count in sorted(trial.done.items()):
        say(f"{count:6} {what}")
    for breach in trial.breaches:
        say(f"BREACH {breach}")
    say(f"{len(trial.breaches)} breaches")
    sys.exit(bool(trial.breaches))
