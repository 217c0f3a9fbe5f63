"""Guests that end by themselves: the daemon reports it, and hosts need not be asked."""

import os
import signal
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.contract import Caller, Subjects
from tests.kvm.fixed_records import POOL, TEMPLATE, FixedRules, address_of, driver_on
from tests.support.hypervisors.libvirt_hosts import PATIENCE_S, LibvirtHosts, why_not

if (reason := why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

HEARD_S = 5.0
"""How long to wait for a word before the next guest is tried: the first may end before anybody hears its host."""


def test_a_host_tells_of_guests_that_end(kvm_hosts: LibvirtHosts, engine: Engine, tmp_path: Path) -> None:
    """Also after its daemon was killed and is back; of guests that run on nothing is told."""
    first = kvm_hosts.hosts[0]
    subjects = Subjects(pool_uuid=POOL, template_uuid=TEMPLATE, memory_mib=32)
    with driver_on(kvm_hosts, engine, tmp_path, FixedRules()) as driver:
        caller, hosts = Caller(driver), [address_of(host) for host in kvm_hosts.hosts]
        staying = subjects.new_guest()
        caller.run(hosts[1], staying)

        def reports_an_end() -> bool:
            """Whether the end of a new guest is told of."""
            guest = subjects.new_guest()
            caller.run(hosts[0], guest)
            os.kill(first.guest_pids()[guest.uuid], signal.SIGKILL)
            until = time.monotonic() + HEARD_S
            while time.monotonic() < until:
                reported = driver.ended_guests(hosts)
                assert staying.uuid not in reported
                if guest.uuid in reported:
                    return True
                time.sleep(0.05)
            return False

        def is_heard() -> bool:
            until = time.monotonic() + PATIENCE_S
            while time.monotonic() < until:
                if reports_an_end():
                    return True
            return False

        driver.ended_guests(hosts)
        assert is_heard()
        first.signal(signal.SIGKILL)
        first.start()
        first.wait()
        assert is_heard()
