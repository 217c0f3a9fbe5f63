"""``make chaos DRIVER=incus``: containers under load while workers, daemons and whole members die.

``SEED=`` chooses what happens, ``MINUTES=`` how long (default 10).
"""

import random
import signal
import sys
import time
from collections.abc import Callable, Sequence

from tests.incus.cluster import IncusHosts, Member, why_not
from tests.support.hypervisors.real_trial import Trial, run_trial


class IncusTrial(Trial):
    """Accidents of the daemons of a cluster, and of its members."""

    def accidents(self) -> Sequence[Callable[[random.Random], str]]:
        """See Trial."""
        return [self._kill_guest, self._kill_daemon, self._pause_daemon, self._reboot_member]

    def remains(self) -> list[str]:
        """See Trial."""
        found: list[str] = self.cloud.hosts.remains()
        return found

    def _kill_guest(self, chance: random.Random) -> str:
        member = self._member(chance)
        count = member.kill_guest(chance)
        return f"killed a guest: on {member.name}, one of {count}"

    def _kill_daemon(self, chance: random.Random) -> str:
        member = self._member(chance)
        member.signal_daemon(signal.SIGKILL)
        time.sleep(1)
        member.wait()
        return f"killed an incusd: {member.name}"

    def _pause_daemon(self, chance: random.Random) -> str:
        member, seconds = self._member(chance), chance.uniform(2, 10)
        member.signal_daemon(signal.SIGSTOP)
        time.sleep(seconds)
        member.signal_daemon(signal.SIGCONT)
        return f"paused an incusd: {member.name}, {seconds:.0f} s"

    def _reboot_member(self, chance: random.Random) -> str:
        member = self._member(chance)
        lost = member.guests()
        member.cut_power()
        time.sleep(chance.uniform(1, 6))
        member.boot()
        member.wait()
        return f"cut a member's power: {member.name} with {len(lost)} guests"

    def _member(self, chance: random.Random) -> Member:
        member: Member = chance.choice(self.cloud.hosts.hosts)
        return member


def main() -> None:
    """Run one trial."""
    if (reason := why_not()) is not None:
        sys.exit(reason)
    run_trial(IncusHosts(), IncusTrial)


if __name__ == "__main__":
    main()
