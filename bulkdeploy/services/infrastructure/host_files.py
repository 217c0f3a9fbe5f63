"""Files that all hosts must have, compared by checksum and mode (docs/how-to/host-files.md)."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bulkdeploy.drivers.abilities.host_files import HostFile, HostFiles
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.parallel_calls import HOSTS_AT_ONCE
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.registry import Drivers
from bulkdeploy.services.abilities import has_ability
from bulkdeploy.store.auditing.audit import Finding

PROMISE = "hosts have the files that host_files declares"


@dataclass(frozen=True, slots=True)
class Pushed:
    """The result of pushing files to a host: the paths of missing or different files, or why they are unknown."""

    host: HostAddress
    paths: Sequence[str] = ()
    problem: str | None = None


def push(
    drivers: Drivers,
    hosts: Sequence[HostAddress],
    files: Sequence[HostFile],
    *,
    dry_run: bool = False,
    timeout_s: float,
) -> list[Pushed]:
    """Write missing or different files to hosts, HOSTS_AT_ONCE hosts at a time.

    A failed host does not stop the others.

    Checksums and modes are compared before, and again after files were written. Hosts whose driver does not support
    files are left out. If ``dry_run`` is true, files are only compared.
    """
    able = [host for host in hosts if files and has_ability(drivers, host.hypervisor, HostFiles)]

    def push_to(host: HostAddress) -> Pushed:
        try:
            driver = HostFiles.of(drivers.driver_for(host.hypervisor), "files", host)
            paths = _put(driver, host, files, dry_run=dry_run, timeout_s=timeout_s)
        except DriverError as error:
            return Pushed(host, problem=str(error))
        return Pushed(host, paths)

    with ThreadPoolExecutor(HOSTS_AT_ONCE) as threads:
        return list(threads.map(push_to, able))


def audit_files(
    drivers: Drivers, hosts: Sequence[HostAddress], files: Sequence[HostFile], *, timeout_s: float
) -> Finding:
    """Return a finding about whether these hosts have these files. No file is written."""
    pushed = push(drivers, hosts, files, dry_run=True, timeout_s=timeout_s)
    breaches = [
        one.problem or f"host {one.host.name}: {', '.join(one.paths)} differ; bulkdeploy hosts push puts them there"
        for one in pushed
        if one.problem is not None or one.paths
    ]
    return Finding("host_files", PROMISE, len(pushed) * len(files), tuple(breaches))


def _put(
    driver: HostFiles, host: HostAddress, files: Sequence[HostFile], *, dry_run: bool, timeout_s: float
) -> list[str]:
    others = _others(driver, host, files, timeout_s)
    if dry_run or not others:
        return [file.path for file in others]
    for file in others:
        driver.put_file(host, file, timeout_s=timeout_s)
    if left := _others(driver, host, others, timeout_s):
        reason = f"{', '.join(file.path for file in left)} differs after it was written: another program changes it"
        raise DriverError("files", host.name, reason, transient=False)
    return [file.path for file in others]


def _others(driver: HostFiles, host: HostAddress, files: Sequence[HostFile], timeout_s: float) -> list[HostFile]:
    """Return the files that are missing on the host or have different contents."""
    there = driver.states_of_files(host, [file.path for file in files], timeout_s=timeout_s)
    return [file for file in files if there.get(file.path) != file.state]
