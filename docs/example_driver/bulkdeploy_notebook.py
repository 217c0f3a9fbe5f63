"""The example driver: bulkdeploy's calls on one side, what a notebook understands on the other."""

from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from notebook import NotebookError, open_notebook

from bulkdeploy.drivers.abilities.volumes import DataVolumes
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import ANY_HOST, DriverError, lost_volume
from bulkdeploy.drivers.guests import Guest, PowerState
from bulkdeploy.drivers.hosts import HostModel
from bulkdeploy.drivers.options import DriverOptions


class NotebookOptions(DriverOptions):
    path: Path


class NotebookDriver(DataVolumes, HypervisorDriver):
    options_model = NotebookOptions

    @classmethod
    def from_options(cls, options):
        made = cls()
        made.path = options.path
        return made

    def admit_host(self, host, *, timeout_s):
        scheme, _, name = host.access.url.partition("://")
        if scheme != "notebook":
            raise DriverError("connect", ANY_HOST, f"no notebook is at {scheme}://", transient=False)
        return HostModel(name, "127.0.0.1", 1, cpu_cores=8, cpu_mhz=2000, memory_mib=65536, local_disk_bytes=0)

    def ensure_running(self, host, guest, *, fence, timeout_s):
        with self._open("boot", host, timeout_s) as page:
            if not self._is_there(page, host, guest.uuid):
                for one in guest.volumes:
                    if one.was_made and str(one.uuid) not in {row[0] for row in page.volumes(str(guest.uuid))}:
                        raise lost_volume("volume", host.name, one)
                    page.make_volume(str(one.uuid), str(one.pool_uuid), one.size_bytes, str(guest.uuid))
                page.run_guest(str(guest.uuid), str(host.uuid), guest.cpu_number, guest.cpu_mhz, guest.memory_mib)

    def ensure_stopped(self, host, guest_uuid, *, forced, fence, timeout_s):
        with self._open("stop", host, timeout_s) as page:
            if self._is_there(page, host, guest_uuid):
                page.end_guest(str(guest_uuid))

    def ensure_copy_gone(self, host, guest_uuid, *, fence, timeout_s):
        with self._open("stop", host, timeout_s) as page:
            if str(host.uuid) in {row[1] for row in page.guests(str(guest_uuid))}:
                page.end_guest(str(guest_uuid))

    def power_of(self, host, guest_uuid, *, fence, timeout_s):
        with self._open("look", host, timeout_s) as page:
            return PowerState.RUNNING if self._is_there(page, host, guest_uuid) else None

    def ensure_absent(self, host, guest_uuid, volume_uuids, *, fence, timeout_s):
        with self._open("delete", host, timeout_s) as page:
            if self._is_there(page, host, guest_uuid):
                page.end_guest(str(guest_uuid))
            for volume_uuid in volume_uuids:
                page.erase_volume(str(volume_uuid))

    def ensure_volume_absent(self, pool_uuid, volume_uuid, *, timeout_s):
        with self._open("delete", None, timeout_s) as page:
            page.erase_volume(str(volume_uuid))

    def list_guests(self):
        with self._open("list", None, 60) as page:
            return iter([self._guest(page, *row) for row in page.guests()])

    def list_volumes(self):
        with self._open("list", None, 60) as page:
            return iter([(UUID(uuid), UUID(pool), size) for uuid, pool, size in page.volumes()])

    def _guest(self, page, uuid, host_uuid, *sizes):
        volumes = frozenset(UUID(volume) for volume, _, _ in page.volumes(uuid))
        return Guest(UUID(uuid), UUID(host_uuid), PowerState.RUNNING, *sizes, volumes)

    def _is_there(self, page, host, guest_uuid):
        for _, host_uuid, *_ in page.guests(str(guest_uuid)):
            if host is not None and host_uuid != str(host.uuid):
                raise DriverError("look", host.name, f"guest {guest_uuid} is on another host", transient=False)
            return True
        return False

    @contextmanager
    def _open(self, step, host, timeout_s):
        try:
            with open_notebook(self.path, timeout_s) as page:
                yield page
        except NotebookError as error:
            raise DriverError(step, host.name if host else ANY_HOST, str(error), transient=True) from error
