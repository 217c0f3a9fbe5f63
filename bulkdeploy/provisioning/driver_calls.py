"""The driver calls of jobs, with fence and timeout, which return failures as values (one file: all calls)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from traceback import format_exception
from typing import TypeVar
from uuid import UUID

import structlog

from bulkdeploy.drivers.abilities.custom_actions import CustomAction, CustomActions
from bulkdeploy.drivers.abilities.devices import DeviceChanges
from bulkdeploy.drivers.abilities.host_fencing import HostFencing
from bulkdeploy.drivers.abilities.isos import IsoDrives
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.abilities.resizing import VolumeResizing
from bulkdeploy.drivers.abilities.scaling import LiveScaling
from bulkdeploy.drivers.abilities.snapshots import Snapshots, SnapshotSpec
from bulkdeploy.drivers.abilities.volume_templates import VolumeTemplates
from bulkdeploy.drivers.batches import BatchDriver, GuestCall, RemoveCall, StartCall, StopCall, make_call
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import DriverError, StaleFence
from bulkdeploy.drivers.guests import Guest, GuestSpec, PowerState, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.options import DriverSettingError
from bulkdeploy.drivers.registry import FindsDrivers
from bulkdeploy.processes.failpoints import Failpoint, after, before
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.driver_batches import DriverBatches
from bulkdeploy.provisioning.outcome import LeaseLost
from bulkdeploy.store.jobs.driver_errors import DriverErrorKind
from bulkdeploy.telemetry import metrics
from bulkdeploy.telemetry.tracing import Span, SpanKind, Value, span

log = structlog.get_logger(__name__)

T = TypeVar("T")

PATIENCE_S = 10.0
"""The seconds in which a host must answer a question, whatever longer time its driver has for its work."""

DECLARED_OFF = "the host was declared off, so that no guest runs on it; reconnectHost takes it back"
"""Reason of calls about guests of such a host, which is not asked."""


class DriverCalls:
    """Calls return the driver's answer, or the DriverError with which they failed. Safe to share between threads.

    Args:
        drivers: where drivers are found.
        timeout_s: how long one call may take, in seconds.
        decrypt: reads a guest's password.
        report: gets each call that failed.
    """

    def __init__(
        self,
        drivers: FindsDrivers,
        timeout_s: float,
        decrypt: Callable[[bytes], str],
        report: Callable[[DriverErrorKind], None],
    ) -> None:
        self._drivers, self._timeout_s, self._decrypt, self._report = drivers, timeout_s, decrypt, report
        self._batches: dict[BatchDriver, DriverBatches] = {}

    def run(self, work: Assignment) -> DriverError | None:
        """Make the guest run on the VM's host.

        Raises:
            LeaseLost: the hypervisor has seen a newer lease of this VM.
        """
        host = work.host
        if host is None:
            return DriverError("place", "no host", f"VM {work.name} holds no host", transient=True)
        if work.host_is_off:
            return DriverError("boot", host.name, DECLARED_OFF, transient=False)

        secrets: list[str] = []

        def start(driver: HypervisorDriver) -> None:
            guest = work.guest
            if work.password_encrypted is not None:
                secrets.append(self._decrypt(work.password_encrypted))
                guest = replace(guest, password=secrets[0])
            for volume in guest.volumes:
                if volume.template_uuid is not None:
                    driver.ensure_template(host, volume.pool_uuid, volume.template_uuid, timeout_s=self._timeout_s)
            try:
                self._ensure_iso(driver, host, guest)
            except DriverError as error:
                rule = "the VM starts with its ISO in its drive, and detachIso takes it out"
                raise error.reported(f"{error.reason} ({rule})") from error
            self._make(driver, StartCall(host, guest, work.fence))

        return self._call(work, "boot", start, secrets)

    def stop(self, work: Assignment, *, forced: bool) -> DriverError | None:
        """Stop the guest, and return the error if it may still run.

        Nothing is called if the VM has no claim on a host or if its host was declared off: the guest does not run
        then. An error that is not ``unanswered`` means that the guest still runs. If the driver rejects the call,
        the guest's state is read before that is concluded, because an earlier unanswered call may have stopped the
        guest.

        Raises:
            LeaseLost: see ``run``.
        """
        host = work.host
        if host is None or work.host_is_off:
            return None
        failure = self._call(
            work,
            "stop",
            lambda driver: self._make(driver, StopCall(host, work.guest.uuid, forced, work.fence)),
        )
        if failure is None or failure.unanswered:
            return failure
        return self._unless_gone(work, host, failure)

    def _unless_gone(self, work: Assignment, host: HostAddress, failure: DriverError) -> DriverError | None:
        """Return the failure of a stop, or None if the guest is absent nevertheless.

        If the guest's state cannot be read, an unanswered error is returned.
        """
        seen = self.state_on_host(work, host)
        if isinstance(seen, DriverError):
            reason = f"{failure.reason}; whether it still runs could not be seen: {seen.reason}"
            return DriverError(failure.step, failure.host, reason, transient=failure.transient, unanswered=True)
        return None if seen is None else failure

    def state_on_host(self, work: Assignment, host: HostAddress) -> PowerState | DriverError | None:
        """Return the guest's power state on this host.

        Returns None if the guest is not on the host, and an error if the state cannot be read.

        Raises:
            LeaseLost: see ``run``.
        """
        if work.is_off(host):
            return None
        return self._call(
            work,
            "look",
            lambda driver: driver.power_of(host, work.guest.uuid, fence=work.fence, timeout_s=self._timeout_s),
        )

    def find_copies(self, work: Assignment) -> Sequence[Guest] | DriverError:
        """Return all copies of the guest on any host, or an error if the hypervisor cannot be queried."""
        return self._call(work, "look", lambda driver: list(driver.find_guest(work.guest.uuid)))

    def volumes_there(self, work: Assignment) -> frozenset[UUID] | DriverError:
        """Return those of the guest's volumes that exist on their pools, or an error if that cannot be seen."""
        wanted = {volume.uuid for volume in work.guest.volumes}
        return self._call(
            work,
            "look",
            lambda driver: frozenset(uuid for uuid, _, _ in driver.list_volumes() if uuid in wanted),
        )

    def end_copy(self, work: Assignment, host: HostAddress) -> DriverError | None:
        """Remove a copy of the guest from a host where the guest does not belong.

        A host that was declared off is skipped.

        Raises:
            LeaseLost: see ``run``.
        """
        if work.is_off(host):
            return None
        return self._call(
            work,
            "stop",
            lambda driver: driver.ensure_copy_gone(
                host, work.guest.uuid, fence=work.fence, timeout_s=self._timeout_s
            ),
        )

    def remove(self, work: Assignment, *, with_volumes: bool) -> DriverError | None:
        """Delete the guest from the hypervisor; with ``with_volumes``, also delete the VM's own volumes.

        Raises:
            LeaseLost: see ``run``.
        """
        return self._remove(work, work.volume_uuids if with_volumes else ())

    def remove_volume(self, work: Assignment, volume: UUID) -> DriverError | None:
        """Delete the guest and its volume ``volume`` from the hypervisor; return the error if that failed."""
        return self._remove(work, (volume,))

    def _remove(self, work: Assignment, volumes: Sequence[UUID]) -> DriverError | None:
        host = None if work.host_is_off else work.host
        return self._call(
            work,
            "delete",
            lambda driver: self._make(driver, RemoveCall(host, work.guest.uuid, tuple(volumes), work.fence)),
        )

    def migrate(self, work: Assignment, source: HostAddress, destination: HostAddress) -> DriverError | None:
        """Move a running guest from ``source`` to ``destination``.

        Returns a permanent error, without calling any driver, if one of the two hosts was declared off.

        Raises:
            LeaseLost: see ``run``.
        """
        for host in (source, destination):
            if work.is_off(host):
                return DriverError("migrate", host.name, DECLARED_OFF, transient=False)
        return self._call(
            work,
            "migrate",
            lambda driver: LiveMigration.of(driver, "migrate", destination).ensure_migrated(
                source, destination, work.guest, fence=work.fence, timeout_s=self._timeout_s
            ),
        )

    def scale(self, work: Assignment, guest: GuestSpec) -> DriverError | None:
        """Change the sizes of the running guest to those of ``guest``.

        Raises:
            LeaseLost: see ``run``.
        """
        return self._change(
            work,
            "scale",
            lambda driver, host: LiveScaling.of(driver, "scale", host).ensure_scaled(
                host, guest, fence=work.fence, timeout_s=self._timeout_s
            ),
        )

    def devices(self, work: Assignment, guest: GuestSpec) -> DriverError | None:
        """Change the devices of the running guest so that it has exactly the volumes and NICs of ``guest``.

        Raises:
            LeaseLost: see ``run``.
        """
        return self._change(
            work,
            "devices",
            lambda driver, host: DeviceChanges.of(driver, "devices", host).ensure_devices(
                host, guest, fence=work.fence, timeout_s=self._timeout_s
            ),
        )

    def drive(self, work: Assignment, guest: GuestSpec) -> DriverError | None:
        """Insert the ISO of ``guest`` into the drive of the running guest, or eject the ISO if ``guest`` has none.

        Nothing is ejected on hypervisors that do not support ISOs.

        Raises:
            LeaseLost: see ``run``.
        """

        def change(driver: HypervisorDriver, host: HostAddress) -> None:
            if guest.iso_uuid is None and IsoDrives not in driver.abilities:
                return
            self._ensure_iso(driver, host, guest)
            IsoDrives.of(driver, "devices", host).ensure_drive(
                host, guest, fence=work.fence, timeout_s=self._timeout_s
            )

        return self._change(work, "devices", change)

    def _ensure_iso(self, driver: HypervisorDriver, host: HostAddress, guest: GuestSpec) -> None:
        """Copy the ISO of the guest's drive into the pool of its root volume, if the hypervisor has drives."""
        if guest.iso_uuid is not None and IsoDrives in driver.abilities:
            driver.ensure_template(host, guest.volumes[0].pool_uuid, guest.iso_uuid, timeout_s=self._timeout_s)

    def run_custom_action(
        self, work: Assignment, action: CustomAction, timeout_s: float, secrets: Sequence[str]
    ) -> str | DriverError:
        """Run a custom action, and return its output or its error. ``secrets`` are removed from errors.

        Raises:
            LeaseLost: see ``run``.
        """
        host = None if work.host_is_off else work.host

        def run(driver: HypervisorDriver) -> str:
            able = CustomActions.of(driver, "custom_action", host)
            return able.run_custom_action(host, work.guest.uuid, action, fence=work.fence, timeout_s=timeout_s)

        return self._call(work, "custom_action", run, secrets)

    def decrypt(self, secret: bytes) -> str:
        """Decrypt a secret and return it as text."""
        return self._decrypt(secret)

    def resize(self, work: Assignment, volume: VolumeSpec, *, running: bool) -> DriverError | None:
        """Resize a volume of the guest. ``running`` means that the guest runs on the VM's host.

        Raises:
            LeaseLost: see ``run``.
        """
        if running:
            return self._change(work, "resize", partial(self._resized, work, volume))
        return self._call(work, "resize", lambda driver: self._resized(work, volume, driver, None))

    def _resized(
        self, work: Assignment, volume: VolumeSpec, driver: HypervisorDriver, host: HostAddress | None
    ) -> None:
        able = VolumeResizing.of(driver, "resize", host)
        able.ensure_resized(host, work.guest.uuid, volume, fence=work.fence, timeout_s=self._timeout_s)

    def size_of(self, work: Assignment, volume: VolumeSpec) -> int | DriverError | None:
        """Return a volume's size in bytes.

        Returns None if the volume does not exist, and an error if its size cannot be read.

        Raises:
            LeaseLost: see ``run``.
        """
        return self._call(
            work,
            "look",
            lambda driver: VolumeResizing.of(driver).size_of(
                work.guest.uuid, volume, fence=work.fence, timeout_s=self._timeout_s
            ),
        )

    def make_template(self, work: Assignment, volume: VolumeSpec, template_uuid: UUID) -> DriverError | None:
        """Copy a volume of a guest that does not run into a template.

        Raises:
            LeaseLost: see ``run``.
        """

        def make(driver: HypervisorDriver) -> None:
            VolumeTemplates.of(driver, "template", None).ensure_template_made(
                work.guest, volume, template_uuid, fence=work.fence, timeout_s=self._timeout_s
            )

        return self._call(work, "template", make)

    def snapshot(self, work: Assignment, snapshot: SnapshotSpec) -> DriverError | None:
        """Take a snapshot of the guest: on the VM's host, or of a guest that does not run if the VM has no host.

        Raises:
            LeaseLost: see ``run``.
        """
        return self._of_snapshot(work, snapshot, "snapshot", lambda driver: driver.ensure_snapshot)

    def revert(self, work: Assignment, snapshot: SnapshotSpec) -> DriverError | None:
        """Revert the guest to the state at the time of the snapshot.

        Raises:
            LeaseLost: see ``run``.
        """
        return self._of_snapshot(work, snapshot, "revert", lambda driver: driver.ensure_reverted)

    def remove_snapshot(self, work: Assignment, snapshot: SnapshotSpec) -> DriverError | None:
        """Delete a snapshot of the guest. A missing snapshot is no error.

        Raises:
            LeaseLost: see ``run``.
        """
        return self._of_snapshot(work, snapshot, "delete_snapshot", lambda driver: driver.ensure_snapshot_absent)

    def _of_snapshot(
        self,
        work: Assignment,
        snapshot: SnapshotSpec,
        step: str,
        method_of: Callable[[Snapshots], Callable[..., None]],
    ) -> DriverError | None:
        def change(driver: HypervisorDriver) -> None:
            method_of(Snapshots.of(driver, step, work.host))(
                work.host, work.guest, snapshot, fence=work.fence, timeout_s=self._timeout_s
            )

        return self._call(work, step, change)

    def _change(
        self, work: Assignment, step: str, change: Callable[[HypervisorDriver, HostAddress], None]
    ) -> DriverError | None:
        """Change a guest where it runs, which a VM without a host does not."""
        host = work.host
        if host is None:
            return DriverError(step, "no host", f"VM {work.name} holds no host", transient=False)
        if work.host_is_off:
            return DriverError(step, host.name, DECLARED_OFF, transient=False)
        return self._call(work, step, lambda driver: change(driver, host))

    def remove_unused_volume(self, work: Assignment, pool: UUID, volume: UUID) -> DriverError | None:
        """Delete a volume that no guest uses."""
        return self._call(
            work,
            "delete_volume",
            lambda driver: driver.ensure_volume_absent(pool, volume, timeout_s=self._timeout_s),
        )

    def fence_host(self, host: HostAddress, names: Mapping[str, str]) -> DriverError | None:
        """Stop all guests of a host and prevent new guests from starting there; return the error if that failed."""
        driver = self._drivers.driver_for(host.hypervisor)

        def fence() -> None:
            HostFencing.of(driver, "fence", host).ensure_fenced(host, timeout_s=self._timeout_s)

        return self._fence(host, names, fence)

    def declare_off(self, host: HostAddress, names: Mapping[str, str]) -> DriverError | None:
        """Tell the hypervisor that a host was switched off; return the error if that failed."""
        driver = self._drivers.driver_for(host.hypervisor)
        return self._fence(host, names, partial(driver.declare_off, host, timeout_s=self._timeout_s))

    def _fence(self, host: HostAddress, names: Mapping[str, str], call: Callable[[], None]) -> DriverError | None:
        before(Failpoint.DRIVER_FENCE)
        try:
            with _timed("fence", host.hypervisor, host):
                call()
        except DriverError as failure:
            self._count("fence", host.hypervisor, "transient")
            log.warning("driver_call_failed", why=str(failure), transient=failure.transient, **names)
            return failure
        after(Failpoint.DRIVER_FENCE)
        return None

    def answers(self, host: HostAddress) -> bool:
        """Return whether a host answers its driver within PATIENCE_S.

        Returns False if the driver cannot find out. A host without power refuses no connection: a longer wait would
        delay the start of its virtual machines elsewhere.
        """
        timeout_s = min(self._timeout_s, PATIENCE_S)
        return bool(self._drivers.driver_for(host.hypervisor).answers(host, timeout_s=timeout_s))

    def _make(self, driver: HypervisorDriver, call: GuestCall) -> None:
        """Make a call, as part of a batch if the driver accepts batches."""
        if not isinstance(driver, BatchDriver):
            make_call(driver, call, self._timeout_s)
            return
        batches = self._batches.get(driver)
        if batches is None:
            batches = self._batches.setdefault(driver, DriverBatches(driver, self._timeout_s))
        batches.make(call)

    def _call(
        self,
        work: Assignment,
        step: str,
        call: Callable[[HypervisorDriver], T],
        secrets: Sequence[str] = (),
    ) -> T | DriverError:
        """Make a driver call with its failpoints and its trace span, and return its answer or its error.

        ``secrets`` are values that must not appear in error messages.
        """
        point = Failpoint(f"driver.{step}")
        before(point)
        with _timed(step, work.hypervisor, work.host) as calling:
            answer = self._answer(work, step, call, secrets)
            if isinstance(answer, DriverError):
                calling.fail(str(answer))
        after(point)
        return answer

    def _answer(
        self, work: Assignment, step: str, call: Callable[[HypervisorDriver], T], secrets: Sequence[str]
    ) -> T | DriverError:
        host = "any host" if work.host is None else work.host.name
        try:
            return call(self._drivers.driver_for(work.hypervisor))
        except StaleFence as error:
            self._count(step, work.hypervisor, "stale")
            metrics.LEASES_LOST.labels("hypervisor").inc()
            raise LeaseLost(f"job {work.job.id}: {error}") from error
        except DriverError as error:
            failure = error.reported(_without(secrets, error.reason))
            self._count(step, work.hypervisor, "transient" if failure.transient else "permanent")
            log.warning("driver_call_failed", why=str(failure), transient=failure.transient, **work.names)
            return failure
        except DriverSettingError as error:
            self._count(step, work.hypervisor, "permanent")
            log.error("driver_call_failed", why=str(error), transient=False, **work.names)  # noqa: TRY400
            return DriverError("connect", host, str(error), transient=False)
        except Exception as error:  # noqa: BLE001 - a defect of a driver fails its job alone
            self._count(step, work.hypervisor, "defect")
            reported = "".join(format_exception(error))
            log.error("driver_defect", step=step, host=host, exception=_without(secrets, reported), **work.names)  # noqa: TRY400
            return DriverError(step, host, _without(secrets, f"{type(error).__name__}: {error}"), transient=False)

    def _count(self, step: str, hypervisor: str, kind: str) -> None:
        metrics.DRIVER_ERRORS.labels(step, hypervisor, kind).inc()
        self._report(DriverErrorKind(step, hypervisor, kind))


@contextmanager
def _timed(step: str, hypervisor: str, host: HostAddress | None) -> Iterator[Span]:
    """Yield how long a call takes, in the metrics and in a span."""

    def facts() -> dict[str, Value]:
        return {"bulkdeploy.hypervisor": hypervisor, "bulkdeploy.host": "" if host is None else host.name}

    with (
        metrics.STEP_SECONDS.labels(step, hypervisor).time(),
        span(f"driver {step}", SpanKind.CLIENT, facts) as calling,
    ):
        yield calling


def _without(secrets: Sequence[str], reported: str) -> str:
    """Return a driver's text without these secrets: it ends up in logs and in results of jobs."""
    for secret in secrets:
        reported = reported.replace(secret, "...")
    return reported
