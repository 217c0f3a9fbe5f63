"""A double of CloudStack's management server, release by release (one file: one small cloud).

Its behaviour follows CloudStack's Java source; comments name classes and lines of 4.20.1.0 unless they name another
release. The double shares no code with the service's API or with its client.
"""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, quote
from uuid import uuid4

from tests.support.cloudstack.apis import APIS, why_refused
from tests.support.cloudstack.zone import GIB, KEYS, POOL, ROOT_DOMAIN, ZONE, ZoneRows

RELEASES = ("4.18", "4.20", "4.22")
API_KEY, SECRET_KEY = "upstream-api-key", "upstream-secret-key"
OF_A_ZONE = ("deployVirtualMachine", "createVolume")
MOVING = ("Starting", "Stopping", "Migrating")
CUT_OFF = "job cancelled because of management server restart or shutdown"
ENVELOPES = {
    "addNicToVirtualMachine": "addnictovirtualmachineresponse",
    "resetSSHKeyForVirtualMachine": "resetSSHKeyforvirtualmachineresponse",
    "scaleVirtualMachine": "scalevirtualmachineresponse",
}
"""Envelopes are not all the command in lower case."""


class Refusal(Exception):
    """An error answer, or a job's failure: CloudStack's ``errorcode`` and ``errortext``."""

    def __init__(self, code: int, text: str) -> None:
        self.code, self.text = code, text
        super().__init__(text)


class Restarted(Exception):
    """The management server whose job this was is no more: what it did not do stays undone."""


@dataclass
class Habits:
    """What a CloudStack may do, by switches; by default it is prompt and empty.

    Attributes:
        start_s: seconds that a VM takes to start.
        one_at_a_time: placing is serial.
        list_lag_s: seconds until a new VM is listed.
        capacity: VMs that each host takes, whatever anybody else has counted.
        overloaded: so many calls to come are answered 530.
        calls_per_s: more calls than this in one second are answered 429, and not executed.
        lost: so many calls to come, of these commands, are executed and their answers lost.
        names: host names that the networks' domain has already.
        slow_list_s: seconds that a list takes.
        proxy_errors: so many requests to come are answered by a proxy, as HTML, and never reach CloudStack.
        clock_ahead_s: seconds by which the management server's clock is ahead of ours.
        most_rows: ``default.page.size``, the most rows of a page.
        regular_envelopes: all answers stand under their command in lower case, which some otherwise do not.
    """

    start_s: float = 0.0
    one_at_a_time: bool = False
    list_lag_s: float = 0.0
    capacity: dict[str, int] = field(default_factory=dict)
    overloaded: int = 0
    calls_per_s: int | None = None
    lost: Counter[str] = field(default_factory=Counter)
    names: set[str] = field(default_factory=set)
    slow_list_s: float = 0.0
    proxy_errors: int = 0
    clock_ahead_s: float = 0.0
    most_rows: int = 500
    regular_envelopes: bool = False


class CloudStackDouble:
    """A cloud of a few hosts in one zone.

    Attributes:
        release: the release whose answers it gives. 4.18 ignores the passwords that calls name, as it ignores any
            parameter that it does not have; the password that it generates is only in the job's result.
        zone: what the lists of infrastructure, owners and offerings contain.
        denied: commands that the role of the key's user does not allow.
        account_type: type of the account that owns the key; 1 is a root admin.
        settings: global settings whose values are not the defaults.
        protected: ids of VMs with delete protection.
        events: rows of ``listEvents``, oldest first.
        habits: how it behaves from now on.
        calls: how many were executed, by command.
        unexpected: requests that CloudStack would refuse for their parameters.
        failing: the next call of these commands fails: ``call`` before anything is done, ``job`` in its job.
        passwords: what guests' passwords were set to, by VM.
        most_ids: the most VMs that one list call named.
        named: the parameters that were given, by command.
        fixed_disks: sizes in GiB of the disk offerings that have one, by id; other offerings are customized.
        used_ips: addresses of its routers and system VMs.
    """

    def __init__(self, hosts: Mapping[str, str], *, release: str = RELEASES[-1], job_threads: int = 16) -> None:
        self.hosts = dict(hosts)
        self.release = release
        self.zone = ZoneRows(self.hosts)
        self.denied: set[str] = set()
        self.account_type = 1
        self.settings: dict[str, str] = {}
        self.protected: set[str] = set()
        self.events: list[dict[str, Any]] = []
        self.habits = Habits()
        self.calls: Counter[str] = Counter()
        self.unexpected: list[str] = []
        self.failing: dict[str, str] = {}
        self.passwords: dict[str, str] = {}
        self.most_ids = 0
        self.named: dict[str, set[str]] = {}
        self.vms: dict[str, dict[str, Any]] = {}
        self.volumes: dict[str, dict[str, Any]] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        offerings = self.zone.rows("listDiskOfferings", release)
        self.fixed_disks = {row["id"]: int(row["disksize"]) for row in offerings if not row["iscustomized"]}
        self.used_ips: set[str] = set()
        self._used: set[str] = set()
        self._lock = threading.RLock()
        self._placing = threading.Lock()
        self._pool = ThreadPoolExecutor(job_threads)
        self._macs = 0
        self._second = (0, 0)
        self._epoch = 0

    def restart(self) -> None:
        """As its management server is restarted: jobs that run fail, with plain text; VMs stay as they are."""
        with self._lock:
            self._epoch += 1
            for job in self.jobs.values():
                if job["jobstatus"] == 0:
                    # AsyncJobManagerImpl.java:1115 of 4.20.1.0 stores plain text, and ApiSerializerHelper.java:54
                    # leaves plain text out of the answer.
                    job.update(jobstatus=2, jobresultcode=530)
            for vm in self.vms.values():
                if vm["state"] in MOVING:
                    vm["state"] = "Running" if vm["state"] != "Starting" else "Stopped"
                    if vm["state"] == "Stopped":
                        vm.pop("hostid", None)

    def running(self) -> dict[str, str]:
        """Hosts by the ids of the VMs that run."""
        with self._lock:
            return {vm["id"]: vm["hostid"] for vm in self.vms.values() if vm["state"] == "Running"}

    def answer(self, parameters: dict[str, str]) -> tuple[int, str, dict[str, Any]] | None:
        """Status, envelope and answer of a request; None: the connection breaks."""
        command = parameters.get("command", "")
        plain = f"{command.lower()}response"
        envelope = plain if self.habits.regular_envelopes else ENVELOPES.get(command, plain)
        with self._lock:
            try:
                self._check(command, parameters)
            except Refusal as refusal:
                return refusal.code, envelope, _error(refusal)
            self.calls[command] += 1
        if command.startswith("list") and self.habits.slow_list_s:
            time.sleep(self.habits.slow_list_s)
        if command in OF_A_ZONE and parameters["zoneid"] != ZONE:
            return 431, envelope, _error(_unknown("zoneid", parameters["zoneid"]))
        method: Callable[[dict[str, str]], dict[str, Any]] = getattr(self, f"_{command}", self._list)
        with self._lock:
            try:
                made = method(parameters)
            except Refusal as refusal:
                return refusal.code, envelope, _error(refusal)
            if self.habits.lost[command] > 0:
                self.habits.lost[command] -= 1
                return None
        return 200, envelope, made

    def close(self) -> None:
        """End its jobs."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _check(self, command: str, parameters: dict[str, str]) -> None:
        named = {name: value for name, value in parameters.items() if name != "signature"}
        if parameters.get("signature") != _signature(named) or not self._is_current(parameters):
            raise Refusal(401, "unable to verify user credentials and/or request signature")
        if command in self.denied:
            # ApiServer.commandAvailable: the answer to a role that does not allow a command is 401, not 432.
            text = f"The given command '{command}' either does not exist, is not available for user."
            raise Refusal(401, text)
        now = int(time.monotonic())
        self._second = (now, self._second[1] + 1) if self._second[0] == now else (now, 1)
        if self.habits.calls_per_s is not None and self._second[1] > self.habits.calls_per_s:
            left = int((now + 1 - time.monotonic()) * 1000) + 1
            raise Refusal(
                429, f"The given user has reached his/her account api limit, please retry after {left} ms."
            )
        if self.habits.overloaded > 0:
            self.habits.overloaded -= 1
            raise Refusal(530, "Internal error executing command: the management server is overloaded")
        self.named.setdefault(command, set()).update(name.partition("[")[0] for name in parameters)
        if int(parameters.get("pagesize", 0)) > self.habits.most_rows:
            # BaseListCmd.getPageSize.
            text = f"Page size can't exceed max allowed page size value: {self.habits.most_rows}"
            raise Refusal(431, text)
        why = why_refused(command, parameters, self.release)
        if why is not None:
            self.unexpected.append(why)
            raise Refusal(431, why)
        if self.failing.get(command) == "call":
            del self.failing[command]
            raise Refusal(530, f"Failed to execute {command}")

    def _is_current(self, parameters: Mapping[str, str]) -> bool:
        """Return whether a request is of the key's owner and has not expired, as ApiServer.verifyRequest checks."""
        if parameters.get("apiKey") != API_KEY or parameters.get("signatureVersion") != "3":
            return False
        expires = datetime.strptime(parameters.get("expires", ""), "%Y-%m-%dT%H:%M:%S%z")
        return expires > self.now()

    def now(self) -> datetime:
        """Return the time by the clock of the management server."""
        return datetime.now(UTC) + timedelta(seconds=self.habits.clock_ahead_s)

    def take_proxy_error(self) -> bool:
        """Return whether a proxy answers the next request."""
        with self._lock:
            is_next = self.habits.proxy_errors > 0
            self.habits.proxy_errors -= is_next
            return is_next

    # --- lists ---------------------------------------------------------------------------------

    def _list(self, requested: dict[str, str]) -> dict[str, Any]:
        """Answer a list of the zone; unknown ids are refused as ParamProcessWorker refuses them."""
        command = requested["command"]
        if _of_projects_only(requested) and command != "listProjects":
            return {}
        rows = self.zone.rows(command, self.release)
        known = {row.get("id") for row in rows}
        if requested.get("id") not in (*known, None):
            raise _unknown("id", requested["id"])
        chosen = [row for row in rows if requested.get("id") in (None, row.get("id"))]
        return _listed(KEYS[command], chosen, requested)

    def _listCapabilities(self, _: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        return {"capability": {"cloudstackversion": f"{self.release}.1.0"}}

    def _listApis(self, _: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        rows = [{"name": name} for name in APIS if name not in self.denied]
        return {"count": len(rows), "api": rows}

    def _listConfigurations(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        rows = [{"name": name, "value": value} for name, value in self.settings.items()]
        return _listed("configuration", [row for row in rows if row["name"] == requested.get("name")], requested)

    def _getUser(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        if requested["userapikey"] != API_KEY:
            raise Refusal(431, "User with specified API key does not exist")
        return {"user": {"username": "admin", "account": "admin", "accounttype": self.account_type}}

    def _listEvents(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        rows = [] if _of_projects_only(requested) else self.events[::-1]
        return _listed("event", rows, requested)

    def _note(self, kind: str, of: str, resource: str, state: str = "Completed") -> None:
        """Write an event, as ActionEventUtils does; times have no fractions of seconds."""
        self.events.append(
            {
                "id": str(uuid4()),
                "type": kind,
                "state": state,
                "level": "INFO",
                "created": self.now().strftime("%Y-%m-%dT%H:%M:%S%z"),
                "resourcetype": of,
                "resourceid": resource,
                "account": "admin",
            }
        )

    def _listVirtualMachines(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        wanted = (
            requested["ids"].split(",") if "ids" in requested else [requested["id"]] if "id" in requested else None
        )
        self.most_ids = max(self.most_ids, len(wanted or ()))
        for one in wanted or ():
            if one not in self._used:
                raise _unknown("ids" if "ids" in requested else "id", one)
        late = time.monotonic() - self.habits.list_lag_s
        details = requested.get("details", "all").split(",")
        rows = [
            _seen(vm, details)
            for vm in self.vms.values()
            if (wanted is None or vm["id"] in wanted) and vm["made"] <= late and vm["state"] != "Expunging"
        ]
        chosen = [row for row in rows if requested.get("hostid") in (None, row.get("hostid"))]
        chosen = [row for row in chosen if requested.get("state") in (None, row["state"])]
        return _listed("virtualmachine", [] if _of_projects_only(requested) else chosen, requested)

    def _listVolumes(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        for name in ("id", "virtualmachineid"):
            if name in requested and requested[name] not in self._used:
                raise _unknown(name, requested[name])
        rows = []
        for volume in self.volumes.values():
            names = {"id": volume["id"], "virtualmachineid": volume.get("virtualmachineid"), "type": volume["type"]}
            if all(requested.get(name) in (None, value) for name, value in names.items()):
                vm = self.vms.get(volume.get("virtualmachineid", ""))
                rows.append(volume | ({} if vm is None else {"vmstate": vm["state"]}))
        return _listed("volume", [] if _of_projects_only(requested) else rows, requested)

    def _queryAsyncJobResult(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        if requested["jobid"] not in self.jobs:
            raise _unknown("jobid", requested["jobid"])
        return dict(self.jobs[requested["jobid"]])

    @contextmanager
    def changed(self, event_type: str, vm_id: str) -> Iterator[dict[str, Any]]:
        """Change the row of a VM as another user of CloudStack does, with an event."""
        with self._lock:
            yield self.vms[vm_id]
            self._note(event_type, "VirtualMachine", vm_id)

    def restart_elsewhere(self, host_id: str) -> list[str]:
        """Restart the VMs of a host that died on another host, as CloudStack's own HA does; return their ids.

        HighAvailabilityManagerImpl.restart writes no event for the VMs.
        """
        other = next(one for one in self.hosts if one != host_id)
        with self._lock:
            self.zone.states[host_id] = "Down"
            moved = [vm for vm in self.vms.values() if vm.get("hostid") == host_id]
            for vm in moved:
                vm.update(hostid=other, hostname=self.hosts[other])
            return [vm["id"] for vm in moved]

    def _offered(self, offering_id: str) -> dict[str, int]:
        rows = self.zone.rows("listServiceOfferings", self.release)
        offering = next((row for row in rows if row["id"] == offering_id), {})
        return {name: offering[name] for name in ("cpunumber", "cpuspeed", "memory") if name in offering}

    # --- VMs -----------------------------------------------------------------------------------

    def _deployVirtualMachine(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        vm_id, job_id = requested.get("customid") or str(uuid4()), requested.get("customjobid") or str(uuid4())
        for one in (vm_id, job_id):
            if one in self._used:
                raise Refusal(431, f"UUID: {one} already exists so can't create/update with custom id")
        if requested["name"] in self.habits.names:
            raise Refusal(
                431,
                f"The vm with hostName {requested['name']} already exists in the network domain: cs1;",
            )
        if requested.get("hostid") not in (*self.hosts, None):
            raise _unknown("hostid", requested["hostid"])
        self._used |= {vm_id, job_id}
        root = str(uuid4())
        self._used.add(root)
        vm: dict[str, Any] = {
            "id": vm_id,
            "name": requested["name"],
            "displayname": requested.get("displayname", requested["name"]),
            "instancename": f"i-2-{len(self._used)}-VM",
            "hypervisor": requested.get("hypervisor", "KVM"),
            "account": requested.get("account", "admin"),
            "domainid": requested.get("domainid", ROOT_DOMAIN),
            "zoneid": requested["zoneid"],
            "serviceofferingid": requested["serviceofferingid"],
            "serviceofferingname": "an offering",
            "templateid": requested["templateid"],
            "templatename": "a template",
            "affinitygroup": [{"id": one} for one in _ids(requested, "affinitygroupids")],
            "securitygroup": [{"id": one} for one in _ids(requested, "securitygroupids")],
            "state": "Stopped",
            "made": time.monotonic(),
            "wanted": requested.get("hostid"),
            **self._offered(requested["serviceofferingid"]),
            **_sizes(requested),
            "nic": [
                self._nic(
                    requested[f"iptonetworklist[{at}].networkid"],
                    requested.get(f"iptonetworklist[{at}].mac"),
                    requested.get(f"iptonetworklist[{at}].ip"),
                )
                for at in range(8)
                if f"iptonetworklist[{at}].networkid" in requested
            ],
        }
        self.vms[vm_id] = vm
        size = int(requested["rootdisksize"]) * GIB if "rootdisksize" in requested else GIB
        for at, nic in enumerate(vm["nic"]):
            nic.update(deviceid=str(at), isdefault=at == 0)
        self.volumes[root] = {
            **{name: vm[name] for name in ("account", "domainid", "zoneid")},
            "id": root,
            "name": "ROOT-1",
            "type": "ROOT",
            "size": size,
            "state": "Allocated",
            "virtualmachineid": vm_id,
            "deviceid": 0,
        }
        password = self._password(vm_id, requested)
        if requested.get("startvm") == "false":
            return {
                "id": vm_id,
                **self._job("deployVirtualMachine", lambda: {"virtualmachine": vm | password}, job_id),
            }

        def start() -> dict[str, Any]:
            try:
                return {"virtualmachine": self._run(vm, requested.get("hostid")) | password}
            except Refusal:
                with self._lock:
                    vm["state"] = "Error"
                    vm.pop("hostid", None)
                raise

        return {"id": vm_id, **self._job("deployVirtualMachine", start, job_id)}

    def _startVirtualMachine(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        vm = self._vm(requested["id"])
        if vm["state"] != "Stopped":
            raise Refusal(431, f"Unable to start VM in state {vm['state']}")

        def start() -> dict[str, Any]:
            try:
                return {"virtualmachine": self._run(vm, requested.get("hostid"))}
            except Refusal:
                with self._lock:
                    vm["state"] = "Stopped"
                    vm.pop("hostid", None)
                raise

        return self._job("startVirtualMachine", start)

    def _run(self, vm: dict[str, Any], host: str | None) -> dict[str, Any]:
        """Place a VM and start it; its hosts takes no more than it has capacity for."""
        with self._placing if self.habits.one_at_a_time else _nothing():
            with self._lock:
                epoch = self._epoch
                there = host or next(iter(self.hosts))
                taken = sum(one.get("hostid") == there for one in self.vms.values())
                if taken >= self.habits.capacity.get(there, 1000):
                    raise Refusal(533, f"Unable to create a deployment for VM instance {{'uuid': '{vm['id']}'}}")
                vm.update(state="Starting", hostid=there, hostname=self.hosts[there])
            time.sleep(self.habits.start_s)
        with self._lock:
            if epoch != self._epoch:
                raise Restarted
            if vm["state"] != "Starting":
                raise Refusal(530, CUT_OFF)
            vm["state"] = "Running"
            self._note("VM.START", "VirtualMachine", vm["id"])
            for volume in self.volumes.values():
                if volume.get("virtualmachineid") == vm["id"]:
                    volume.update(state="Ready", storageid=POOL)
            return dict(vm)

    def _stopVirtualMachine(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        vm = self._vm(requested["id"])

        def stop() -> dict[str, Any]:
            with self._lock:
                vm["state"] = "Stopped"
                vm.pop("hostid", None)
                self._note("VM.STOP", "VirtualMachine", vm["id"])
            return {"virtualmachine": vm}

        return self._job("stopVirtualMachine", stop)

    def _destroyVirtualMachine(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        vm = self._destroyed_vm(requested["id"])

        def destroy() -> dict[str, Any]:
            if vm is None or vm["id"] not in self.vms:
                # UserVmManagerImpl.java:3418 of 4.20.1.0, which runs in the job.
                raise Refusal(431, f"unable to find a virtual machine with id {requested['id']}")
            if vm["id"] in self.protected:
                # UserVmManagerImpl.destroyVm of 4.22.
                name = f"[id = {vm['id']}, name = {vm['name']}]"
                raise Refusal(431, f"Instance {name} has delete protection enabled and cannot be deleted.")
            with self._lock:
                self._note("VM.DESTROY", "VirtualMachine", vm["id"])
                self.vms.pop(vm["id"], None)
                for volume in list(self.volumes.values()):
                    if volume.get("virtualmachineid") == vm["id"]:
                        if volume["type"] == "ROOT":
                            del self.volumes[volume["id"]]
                        else:
                            del volume["virtualmachineid"]
            return {"virtualmachine": vm}

        return self._job("destroyVirtualMachine", destroy)

    def _migrateVirtualMachine(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        vm = self._vm(requested["virtualmachineid"])
        if vm["state"] != "Running":
            raise Refusal(431, "VM is not Running, unable to migrate the vm")

        def migrate() -> dict[str, Any]:
            with self._lock:
                if vm["state"] == "Running":
                    vm.update(hostid=requested["hostid"], hostname=self.hosts[requested["hostid"]])
                    self._note("VM.MIGRATE", "VirtualMachine", vm["id"])
            return {"virtualmachine": vm}

        return self._job("migrateVirtualMachine", migrate)

    def _scaleVirtualMachine(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        vm = self._vm(requested["id"])

        def scale() -> dict[str, Any]:
            with self._lock:
                vm.update(_sizes(requested))
            return {"success": True}

        return self._job("scaleVirtualMachine", scale)

    def _resetPasswordForVirtualMachine(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802
        vm = self._vm(requested["id"])
        made = vm | self._password(vm["id"], requested)
        return self._job("resetPasswordForVirtualMachine", lambda: {"virtualmachine": made})

    def _resetSSHKeyForVirtualMachine(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802
        vm = self._vm(requested["id"])
        vm["keypairs"] = requested["keypairs"]
        return self._job("resetSSHKeyForVirtualMachine", lambda: {"virtualmachine": vm})

    def _addNicToVirtualMachine(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        vm = self._vm(requested["virtualmachineid"])

        def add() -> dict[str, Any]:
            with self._lock:
                vm["nic"].append(
                    self._nic(requested["networkid"], requested.get("macaddress"), requested.get("ipaddress"))
                )
            return {"virtualmachine": vm}

        return self._job("addNicToVirtualMachine", add)

    def _removeNicFromVirtualMachine(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802
        vm = self._vm(requested["virtualmachineid"])

        def remove() -> dict[str, Any]:
            with self._lock:
                vm["nic"] = [nic for nic in vm["nic"] if nic["id"] != requested["nicid"]]
            return {"virtualmachine": vm}

        return self._job("removeNicFromVirtualMachine", remove)

    # --- volumes -------------------------------------------------------------------------------

    def _createVolume(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        volume_id = requested.get("customid") or str(uuid4())
        if volume_id in self._used:
            raise Refusal(431, f"UUID: {volume_id} already exists so can't create/update with custom id")
        self._used.add(volume_id)
        fixed_gib = self.fixed_disks.get(requested["diskofferingid"])
        if fixed_gib is None and "size" not in requested:
            # VolumeApiServiceImpl.java:787 of 4.20.1.0.
            raise Refusal(431, "This disk offering requires a custom size specified")
        if fixed_gib is not None and "size" in requested:
            # VolumeApiServiceImpl.java:793 of 4.20.1.0.
            raise Refusal(431, "This disk offering does not allow custom size")
        size = (fixed_gib or int(requested.get("size", 0))) * GIB
        volume = {
            "id": volume_id,
            "name": requested["name"],
            "account": requested.get("account", "admin"),
            "domainid": requested.get("domainid", ROOT_DOMAIN),
            "zoneid": requested["zoneid"],
            "diskofferingid": requested["diskofferingid"],
            "type": "DATADISK",
            "size": size,
            "state": "Allocated",
        }
        self.volumes[volume_id] = volume
        return {"id": volume_id, **self._job("createVolume", lambda: {"volume": volume})}

    def _attachVolume(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        volume, vm = self._volume(requested["id"]), self._vm(requested["virtualmachineid"])
        if "virtualmachineid" in volume:
            raise Refusal(431, "Please specify a volume that is not attached to any VM.")

        def attach() -> dict[str, Any]:
            with self._lock:
                volume.update(virtualmachineid=vm["id"], deviceid=len(self.volumes))
                self._note("VOLUME.ATTACH", "Volume", volume["id"])
                if vm["state"] == "Running":
                    volume.update(state="Ready", storageid=POOL)
            return {"volume": volume}

        return self._job("attachVolume", attach)

    def _detachVolume(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        volume = self._volume(requested["id"])
        if "virtualmachineid" not in volume:
            raise Refusal(431, "The specified volume is not attached to a virtual machine.")

        def detach() -> dict[str, Any]:
            with self._lock:
                volume.pop("virtualmachineid", None)
                self._note("VOLUME.DETACH", "Volume", volume["id"])
            return {"volume": volume}

        return self._job("detachVolume", detach)

    def _deleteVolume(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        volume = self._volume(requested["id"])
        if "virtualmachineid" in volume:
            raise Refusal(431, "Please specify a volume that is not attached to any VM.")
        del self.volumes[volume["id"]]
        return {"success": True}

    def _resizeVolume(self, requested: dict[str, str]) -> dict[str, Any]:  # noqa: N802 - CloudStack's name
        volume, size = self._volume(requested["id"]), int(requested["size"]) * GIB
        if size < volume["size"] and requested.get("shrinkok") != "true":
            raise Refusal(431, "Going from existing size to a smaller one: shrinkok must be true")

        def resize() -> dict[str, Any]:
            with self._lock:
                volume["size"] = size
                self._note("VOLUME.RESIZE", "Volume", volume["id"])
            return {"volume": volume}

        return self._job("resizeVolume", resize)

    # --- parts ---------------------------------------------------------------------------------

    def _nic(self, network_id: str, mac: str | None, ip: str | None) -> dict[str, Any]:
        """Give a nic the addresses that were named, or else the first that are free."""
        if ip is not None and ip in self.used_ips:
            # IpAddressManagerImpl.java:1026 of 4.20.1.0; DeployVMCmd.create makes it a 533 of the call itself.
            raise Refusal(533, f"Insufficient address capacity in network {network_id}: {ip} is not available")
        chosen = ip or next(
            one for number in count(10) if (one := f"10.0.{number // 256}.{number % 256}") not in self.used_ips
        )
        self.used_ips.add(chosen)
        self._macs += 1
        return {
            "id": str(uuid4()),
            "networkid": network_id,
            "macaddress": mac or f"1e:00:00:00:{self._macs // 256:02x}:{self._macs % 256:02x}",
            "ipaddress": chosen,
            "gateway": "10.0.0.1",
            "netmask": "255.255.0.0",
        }

    def _vm(self, vm_id: str) -> dict[str, Any]:
        if vm_id not in self._used:
            raise _unknown("id", vm_id)
        if vm_id not in self.vms:
            raise Refusal(431, "Unable to find a virtual machine with specified vmId")
        return self.vms[vm_id]

    def _destroyed_vm(self, vm_id: str) -> dict[str, Any] | None:
        """Return a VM that is to be destroyed, or None if it was expunged."""
        if vm_id not in self._used:
            raise _unknown("id", vm_id)
        return self.vms.get(vm_id)

    def _password(self, vm_id: str, requested: dict[str, str]) -> dict[str, str]:
        """Give a guest its password; only the job's result tells it."""
        given = None if self.release == "4.18" else requested.get("password")
        self.passwords[vm_id] = given or "made-up"
        return {"password": self.passwords[vm_id]}

    def _volume(self, volume_id: str) -> dict[str, Any]:
        if volume_id not in self.volumes:
            raise _unknown("id", volume_id)
        return self.volumes[volume_id]

    def _job(self, command: str, work: Callable[[], dict[str, Any]], job_id: str | None = None) -> dict[str, Any]:
        job: dict[str, Any] = {"jobid": job_id or str(uuid4()), "jobstatus": 0, "jobresultcode": 0}
        self.jobs[job["jobid"]] = job
        epoch, fails = self._epoch, self.failing.get(command) == "job"
        if fails:
            del self.failing[command]

        def end() -> None:
            if epoch != self._epoch:
                return
            try:
                result, status = (_say_no(command) if fails else work()), 1
            except Restarted:
                return
            except Refusal as refusal:
                result, status = {"errorcode": refusal.code, "errortext": refusal.text}, 2
            with self._lock:
                if epoch == self._epoch:
                    job.update(jobstatus=status, jobresultcode=0 if status == 1 else 530, jobresult=result)

        self._pool.submit(end)
        return {"jobid": job["jobid"]}


@contextmanager
def serving(upstream: CloudStackDouble) -> Iterator[str]:
    """The upstream behind HTTP; the url of its API."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reply(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            query = self.path.partition("?")[2]
            if upstream.take_proxy_error():
                page = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
                self._send(502, "text/html", page)
                return
            body = self.rfile.read(length).decode() if length else ""
            found = upstream.answer(dict(parse_qsl("&".join(part for part in (query, body) if part), True)))
            if found is None:
                self.close_connection = True
                return
            status, envelope, answer = found
            self._send(status, "application/json;charset=UTF-8", json.dumps({envelope: answer}).encode())

        def _send(self, status: int, content_type: str, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def date_time_string(self, timestamp: float | None = None) -> str:
            del timestamp
            return format_datetime(upstream.now(), usegmt=True)

        do_GET = do_POST = reply  # noqa: N815 - the names are the server's

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/client/api"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        upstream.close()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _signature(parameters: Mapping[str, str]) -> str:
    """As CloudStack makes it: sorted by name, values as Java writes them, in lower case."""
    parts = [f"{name}={quote(value, safe='*').replace('~', '%7E')}" for name, value in sorted(parameters.items())]
    digest = hmac.new(SECRET_KEY.encode(), "&".join(parts).lower().encode(), hashlib.sha1)
    return base64.b64encode(digest.digest()).decode()


def _say_no(command: str) -> dict[str, Any]:
    raise Refusal(530, f"Failed to execute {command}: the agent said no")


def _error(refusal: Refusal) -> dict[str, Any]:
    return {"uuidList": [], "errorcode": refusal.code, "cserrorcode": 4350, "errortext": refusal.text}


def _unknown(parameter: str, value: str) -> Refusal:
    return Refusal(
        431,
        "Unable to execute API command due to invalid value. Invalid parameter "
        f"{parameter} value={value} due to incorrect long value format, or entity does not exist or due to "
        "incorrect parameter annotation for the field in api cmd class.",
    )


def _of_projects_only(requested: Mapping[str, str]) -> bool:
    """Return whether a list call asks for the things of projects only; the double has no projects."""
    return bool(requested.get("projectid")) and requested.get("listall") != "true"


def _listed(name: str, rows: list[dict[str, Any]], requested: Mapping[str, str]) -> dict[str, Any]:
    """A page of a list; an empty list has neither count nor key."""
    size, page = int(requested.get("pagesize", 500)), int(requested.get("page", 1))
    some = rows[(page - 1) * size : page * size]
    return {"count": len(rows), name: some} if some else {}


def _seen(vm: Mapping[str, Any], details: list[str]) -> dict[str, Any]:
    hidden = {"made", "wanted"}
    if not {"all", "nics"} & set(details):
        hidden.add("nic")
    if not {"all", "servoff"} & set(details):
        hidden |= {"cpunumber", "cpuspeed", "memory"}
    return {name: value for name, value in vm.items() if name not in hidden}


def _ids(requested: Mapping[str, str], name: str) -> list[str]:
    return [one for one in requested.get(name, "").split(",") if one]


def _sizes(requested: Mapping[str, str]) -> dict[str, int]:
    names = {"cpunumber": "cpuNumber", "cpuspeed": "cpuSpeed", "memory": "memory"}
    return {
        field: int(requested[f"details[0].{name}"])
        for field, name in names.items()
        if f"details[0].{name}" in requested
    }
