"""``make chaos DRIVER=libvirt``: real guests under load while workers, daemons, guests and whole hosts die.

All VMs are highly available, and each host has a management controller, which may be dead itself. ``SEED=`` chooses
what happens, ``MINUTES=`` how long (default 10).
"""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.kvm.writing_guest import writing_image
from tests.support.api.api_client import ApiFailure
from tests.support.hypervisors.libvirt_hosts import LibvirtHost, LibvirtHosts, libvirt_hosts, why_not
from tests.support.hypervisors.libvirt_servers import DoubleRuns, switch
from tests.support.hypervisors.real_trial import Trial, run_trial
from tests.support.power.host_ha import QUICK, ha_state, host_ha, host_named, take_back
from tests.support.power.redfish_servers import Server
from tests.support.runs.waiting import say, wait_for

DEGRADED_S = 10
"""How often a silent host with active disks is checked again. A host that loses its power during a live migration
is such a host, because the destination writes to the same disk."""

INTERVAL_S = QUICK["kvm.ha.activity.check.interval"]
"""A host of which some guest writes more often than this is never fenced."""


def longest_pause(pids: Collection[int], pool: Path, seconds: float) -> float:
    """Watch the disks of guests for some seconds, and return the longest time without a write to any of them."""
    disks = {disk for pid in pids for disk in open_files(pid) if disk.parent == pool}
    began = time.time()
    writes = {began}
    while time.time() < began + seconds:
        for disk in disks:
            with suppress(OSError):
                writes.add(disk.stat().st_mtime)
        time.sleep(0.2)
    inside = sorted({began, *(write for write in writes if write > began), time.time()})
    return max(later - earlier for earlier, later in pairwise(inside))


def is_under_way(job: Mapping[str, Any], when: datetime) -> bool:
    """Return whether a job was under way at a time. The API gives times in whole seconds."""
    began, ended = (datetime.strptime(job[name], "%Y-%m-%dT%H:%M:%S%z") for name in ("created", "completed"))
    return began <= when <= ended + timedelta(seconds=1)


def open_files(pid: int) -> Iterator[Path]:
    """Yield the files that a process has open."""
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield link.readlink()


class WritingHosts(LibvirtHosts):
    """Hosts whose guests write to their disks, which shows that they run."""

    def write_image(self, path: Path) -> None:
        """Write the image of guests that append a counter to their disks."""
        path.write_bytes(writing_image())


class LibvirtTrial(Trial):
    """Accidents of libvirt daemons, of QEMU, and of servers with their management controllers."""

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        """Give every host a controller and host HA, and watch for guests that run twice; all VMs get HA."""
        client, hosts = self.cloud.client, self.cloud.hosts.hosts
        self._idle_s: dict[str, float] = {}
        self._servers = {host.name: Server(switch=partial(switch, host)) for host in hosts}
        for name, value in (("vm.ha.restart.attempts", 100), ("kvm.ha.degraded.max.period", DEGRADED_S)):
            client.call("updateConfiguration", name=name, value=value)
        tiny = client.call("listServiceOfferings", id=self.cloud.ids["serviceofferingid"])["serviceoffering"][0]
        size = {key: tiny[key] for key in ("cpunumber", "cpuspeed", "memory")}
        made = client.call("createServiceOffering", name="ha", displaytext="HA", offerha=True, **size)
        self.cloud.ids["serviceofferingid"] = made["serviceoffering"]["id"]
        with host_ha(client, self._servers), DoubleRuns(hosts) as doubles:
            yield
        self.breaches += [f"guest {guest} ran twice at once {how}" for guest, how in doubles.found.items()]
        self.breaches += self._unexplained(doubles.takeovers)

    def _unexplained(self, takeovers: Mapping[tuple[UUID, int], datetime]) -> list[str]:
        """Return the takeovers of a guest by another process that happened outside all migrations of its VM."""
        jobs = self.cloud.client.call("listAsyncJobs", listall=True, pagesize=-1).get("asyncjobs", ())
        migrations = [job for job in jobs if "Migrate" in job["cmd"]]
        say(f"{len(takeovers)} guests had two processes in a live migration; {len(migrations)} jobs migrated VMs")
        return [
            f"guest {guest} had two processes at {when:%H:%M:%S}, but no job migrated its VM"
            for (guest, _), when in takeovers.items()
            if not any(job["jobinstanceid"] == str(guest) and is_under_way(job, when) for job in migrations)
        ]

    def broken_promises(self) -> list[str]:
        """Return highly available VMs that do not run although the load has not stopped them."""
        return [
            f"highly available VM {vm['id']} is Stopped, and nobody stopped it"
            for vm in self.cloud.vms()
            if vm["state"] == "Stopped" and vm["id"] not in self.may_be_stopped
        ]

    def accidents(self) -> Sequence[Callable[[random.Random], str]]:
        """See Trial."""
        on_hosts = [self._kill_daemon, self._pause_daemon, self._reboot_host, self._cut_off, self._cut_power]
        return [self._kill_guest, *(partial(self._on_host, accident) for accident in on_hosts)]

    def remains(self) -> list[str]:
        """See Trial."""
        return [file.name for file in self.cloud.hosts.pool.iterdir() if not file.name.startswith("template-")]

    def _kill_guest(self, chance: random.Random) -> str:
        host = self._host(chance)
        pids = host.guest_pids()
        if pids:
            with suppress(ProcessLookupError):
                os.kill(pids[chance.choice(sorted(pids))], signal.SIGKILL)
        return f"killed a guest: on {host.name}, one of {len(pids)}"

    def _on_host(self, accident: Callable[[LibvirtHost, random.Random], str], chance: random.Random) -> str:
        """Let something happen to a host; if host HA has fenced the host meanwhile, take it back."""
        host = self._host(chance)
        self._idle_s.pop(host.name, None)
        what = accident(host, chance)
        try:
            wait_for(lambda: self._is_settled(host), f"host {host.name} is Up or Fenced")
            if self._ha_state(host) == "Fenced":
                take_back(self.cloud.client, host.name)
                wait_for(lambda: self._is_settled(host), f"host {host.name} is Up")
                what += ", fenced and taken back"
                if self._idle_s.get(host.name, INTERVAL_S) < INTERVAL_S:
                    self.breaches.append(f"a host whose guests wrote was fenced: {what}")
        except (AssertionError, ApiFailure) as error:
            self.breaches.append(f"after an accident ({what}): {error}")
        return what

    def _is_settled(self, host: LibvirtHost) -> bool:
        row = host_named(self.cloud.client, host.name)
        return row["hostha"]["hastate"] == "Fenced" or (
            row["hostha"]["hastate"] == "Available" and row["state"] == "Up" and bool(host.is_alive)
        )

    def _ha_state(self, host: LibvirtHost) -> str:
        return ha_state(self.cloud.client, host.name)

    def _kill_daemon(self, host: LibvirtHost, chance: random.Random) -> str:
        host.signal(signal.SIGKILL)
        time.sleep(chance.uniform(0, 5))
        switch(host, on=True)
        return f"killed a libvirtd: {host.name}"

    def _pause_daemon(self, host: LibvirtHost, chance: random.Random) -> str:
        seconds = chance.uniform(2, 10)
        host.signal(signal.SIGSTOP)
        time.sleep(seconds)
        host.signal(signal.SIGCONT)
        return f"paused a libvirtd: {host.name}, {seconds:.0f} s"

    def _reboot_host(self, host: LibvirtHost, chance: random.Random) -> str:
        lost = len(host.guest_pids())
        switch(host, on=False)
        time.sleep(chance.uniform(1, 6))
        switch(host, on=True)
        return f"rebooted a host: {host.name} with {lost} guests"

    def _cut_off(self, host: LibvirtHost, chance: random.Random) -> str:
        """Silence a host for longer than its checks take, while its guests write."""
        seconds, guests = chance.uniform(15, 25), host.guest_pids()
        host.signal(signal.SIGSTOP)
        idle_s = longest_pause(guests.values(), self.cloud.hosts.pool, seconds)
        host.signal(signal.SIGCONT)
        self._idle_s[host.name] = idle_s
        about = f"{len(guests)} guests, {seconds:.0f} s, no write for {idle_s:.1f} s"
        return f"cut off a host: {host.name} with {about}"

    def _cut_power(self, host: LibvirtHost, chance: random.Random) -> str:
        """Cut a server's power; its controller may know that, believe that it is on, or be dead for a while.

        A server without guests is switched on at the end, because it is not fenced while its controller reports On.
        """
        server, lost = self._servers[host.name], len(host.guest_pids())
        server.is_on = chance.random() < 0.5
        dead_s = chance.choice((0.0, chance.uniform(15, 25)))
        repaired = threading.Event()
        if dead_s:
            server.stall = repaired
        switch(host, on=False)
        if dead_s:
            time.sleep(dead_s)
            if self._ha_state(host) == "Fenced":
                self.breaches.append(f"host {host.name} is Fenced though its controller is dead")
            server.stall = None
            repaired.set()
        if not lost:
            server.is_on = True
            switch(host, on=True)
        return f"cut the power of a server: {host.name} with {lost} guests, its controller dead for {dead_s:.0f} s"

    def _host(self, chance: random.Random) -> LibvirtHost:
        host: LibvirtHost = chance.choice(self.cloud.hosts.hosts)
        return host


def main() -> None:
    """Run one trial."""
    if (reason := why_not()) is not None:
        sys.exit(reason)
    with libvirt_hosts(3, of=WritingHosts) as hosts:
        run_trial(hosts, LibvirtTrial)


if __name__ == "__main__":
    main()
