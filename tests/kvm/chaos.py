"""``make chaos DRIVER=libvirt``: real guests under load while workers, daemons, guests and whole hosts die.

``SEED=`` chooses what happens, ``MINUTES=`` how long (default 10).
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from tests.support.hypervisors.libvirt_hosts import LibvirtHost, libvirt_hosts, why_not
from tests.support.hypervisors.real_trial import Trial, run_trial


class LibvirtTrial(Trial):
    """Accidents of libvirt daemons and of QEMU."""

    def accidents(self) -> Sequence[Callable[[random.Random], str]]:
        """See Trial."""
        return [self._kill_guest, self._kill_daemon, self._pause_daemon, self._reboot_host]

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

    def _kill_daemon(self, chance: random.Random) -> str:
        host = self._host(chance)
        host.signal(signal.SIGKILL)
        time.sleep(chance.uniform(0, 5))
        host.start()
        host.wait()
        return f"killed a libvirtd: {host.name}"

    def _pause_daemon(self, chance: random.Random) -> str:
        host, seconds = self._host(chance), chance.uniform(2, 10)
        host.signal(signal.SIGSTOP)
        time.sleep(seconds)
        host.signal(signal.SIGCONT)
        return f"paused a libvirtd: {host.name}, {seconds:.0f} s"

    def _reboot_host(self, chance: random.Random) -> str:
        host = self._host(chance)
        host.signal(signal.SIGKILL)
        lost = host.guest_pids()
        for pid in lost.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(chance.uniform(1, 6))
        host.start()
        host.wait()
        return f"rebooted a host: {host.name} with {len(lost)} guests"

    def _host(self, chance: random.Random) -> LibvirtHost:
        host: LibvirtHost = chance.choice(self.cloud.hosts.hosts)
        return host


def main() -> None:
    """Run one trial."""
    if (reason := why_not()) is not None:
        sys.exit(reason)
    with libvirt_hosts(3) as hosts:
        run_trial(hosts, LibvirtTrial)


if __name__ == "__main__":
    main()
