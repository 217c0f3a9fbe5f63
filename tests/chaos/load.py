"""Clients that deploy, stop, start, move and destroy VMs, one or many at once (one file: the load)."""

import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from threading import Event, Thread
from uuid import UUID

from tests.chaos.journal import BulkCall, Journal
from tests.chaos.watcher import Watcher
from tests.support.api.api_client import Answer, ApiClient
from tests.support.zones.zone_queries import Zone

SIZES = (1, 2, 5, 10, 20, 40, 40, 80, 80, 150, 150)
LARGE = (300, 600, 900)
MOST_LIVE_VMS = 3000
MOST_UNFINISHED = 1200
ATTEMPTS = 6
OF_VOLUMES = frozenset({"zoneid", "account", "domainid"})
DOWN_WAIT_S = 5
"""``host.down.wait``: hosts that are cut off for longer are fenced, and VMs start elsewhere by themselves."""

HOSTS_HAVE_URLS = (
    "UPDATE hosts SET url = format('http://rack/%s?cpu_cores=%s&cpu_mhz=%s&memory_mib=%s&cpu_sockets=%s',"
    " name, cpu_cores, cpu_mhz, memory_mib, cpu_sockets)"
)
OPERATIONS = {
    "bulkStopVirtualMachine": "stopVirtualMachine",
    "bulkStartVirtualMachine": "startVirtualMachine",
    "bulkRebootVirtualMachine": "rebootVirtualMachine",
    "bulkRestoreVirtualMachine": "restoreVirtualMachine",
    "bulkMigrateVirtualMachine": "migrateVirtualMachine",
    "bulkUpdateVirtualMachine": "updateVirtualMachine",
    "bulkScaleVirtualMachine": "scaleVirtualMachine",
}
"""Operations on many VMs, and the commands whose jobs they make; ``_remove_and_recover`` makes the others."""

FLEETS, MOST_OF_FLEET = 6, 25
"""So many managed deployments, each of at most so many VMs."""

UNEXPECTED = (503, 530)
"""Statuses of errors that say nothing of the call: here, a database that cannot be reached."""


@dataclass(frozen=True, slots=True)
class Names:
    """Ids of what calls mention."""

    parameters: Mapping[str, object]
    clusters: Sequence[str]
    hosts: Sequence[str]
    volume: Mapping[str, object]
    """What a volume is made of."""

    commands: frozenset[str]

    @classmethod
    def read(cls, zone: Zone, client: ApiClient) -> "Names":
        """From the loaded zone and from what the API offers.

        Hosts get urls, by which those that were fenced are taken back; some VMs are highly available.
        """
        zone.change(HOSTS_HAVE_URLS)
        zone.change("UPDATE service_offerings SET offer_ha = true WHERE name = 'Small'")
        client.call("updateConfiguration", name="host.down.wait", value=DOWN_WAIT_S)
        apis = client.call("listApis")["api"]
        return cls(
            parameters={
                name: value for name, value in zone.bulk_parameters(1).items() if name != "virtualmachinecount"
            },
            clusters=[str(row.uuid) for row in zone.rows("SELECT uuid FROM clusters ORDER BY id")],
            volume={
                **{name: value for name, value in zone.bulk_parameters(1).items() if name in OF_VOLUMES},
                "diskofferingid": zone.id_of("disk_offerings", "20 GiB"),
            },
            hosts=[str(row.uuid) for row in zone.rows("SELECT uuid FROM hosts ORDER BY id")],
            commands=frozenset(api["name"] for api in apis),
        )


class Client(Thread):
    """One client; what it does follows from its seed and from what it is answered."""

    def __init__(
        self,
        name: str,
        dice: Random,
        clients: Sequence[ApiClient],
        names: Names,
        journal: Journal,
        watcher: Watcher,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._dice, self._clients, self._names = dice, clients, names
        self._journal, self._watcher = journal, watcher
        self._ended = Event()
        self._number = 0
        self.failure: BaseException | None = None

    def end(self) -> None:
        """Let it begin nothing more."""
        self._ended.set()

    def run(self) -> None:
        """Do one thing after the other."""
        ways: list[tuple[Callable[[], None], int]] = [
            (self._bulk, 18),
            (self._unlike, 4),
            (self._large_and_cancelled, 2),
            (self._single, 8),
            (self._dry_run, 4),
            (self._refused, 4),
            (self._destroy_some, 18),
            (self._change_vm, 20),
            (self._operate, 8),
            (self._remove_and_recover, 3),
            (self._manage, 8),
            (self._cancel, 4),
            (self._poll, 14),
            (self._migrate, 5),
            (self._repair, 3),
            (self._volume, 6),
            (self._maintain, 1),
            (self._balance, 1),
            (self._empty, 1),
            (self._take_back, 2),
        ]
        actions, weights = zip(*ways, strict=True)
        try:
            while not self._ended.is_set():
                now = self._watcher.now
                if now.live_vms > MOST_LIVE_VMS or now.unfinished > MOST_UNFINISHED:
                    (self._destroy_some if now.unfinished < MOST_UNFINISHED else self._poll)()
                else:
                    self._dice.choices(actions, weights)[0]()
                self._ended.wait(self._dice.uniform(0.02, 0.3))
        except BaseException as error:  # told by whoever joins this thread
            self.failure = error
            raise

    def _bulk(self) -> None:
        more: dict[str, object] = {}
        if self._dice.random() < 0.8:
            more["requesttoken"] = str(UUID(int=self._dice.getrandbits(128)))
        if self._dice.random() < 0.1:
            more["clusterid"] = self._dice.choice(self._names.clusters)
        count = self._dice.choice(SIZES)
        if self._dice.random() < 0.1:
            more["affinitygroupnames"], count = "apart", self._dice.randint(1, 6)
        self._deploy("bulkDeployVirtualMachine", count, virtualmachinecount=count, **more)

    def _large_and_cancelled(self) -> None:
        """A large batch that somebody thinks better of, at once or a little later."""
        count, token = self._dice.choice(LARGE), str(UUID(int=self._dice.getrandbits(128)))
        call = self._deploy("bulkDeployVirtualMachine", count, virtualmachinecount=count, requesttoken=token)
        self._ended.wait(self._dice.uniform(0.0, 2.0))
        if call.jobs:
            self._cancel_of(call.jobs[0])

    def _dry_run(self) -> None:
        count = self._dice.choice(SIZES)
        self._deploy("bulkDeployVirtualMachine", count, virtualmachinecount=count, dryrun=True)

    def _refused(self) -> None:
        """More than there is room for."""
        self._deploy("bulkDeployVirtualMachine", 50_000, virtualmachinecount=50_000)

    def _single(self) -> None:
        self._deploy("deployVirtualMachine", 1)

    def _deploy(self, command: str, count: int, **more: object) -> BulkCall:
        self._number += 1
        prefix = f"{self.name}-{self._number}"
        naming = {"name": prefix} if command == "deployVirtualMachine" else {"nameprefix": prefix}
        return self._make(BulkCall(command, prefix, count, {**self._names.parameters, **naming, **more}))

    def _unlike(self) -> None:
        """A list of unlike VMs."""
        self._number += 1
        prefix = f"{self.name}-{self._number}"
        shared = {name: self._names.parameters[name] for name in OF_VOLUMES if name in self._names.parameters}
        of_each = {name: value for name, value in self._names.parameters.items() if name not in OF_VOLUMES}
        entries = [
            {**of_each, "nameprefix": prefix, "rootdisksize": size, "count": self._dice.choice(SIZES[:6])}
            for size in self._dice.sample(range(2, 9), self._dice.randint(1, 4))
        ]
        more = {"requesttoken": str(UUID(int=self._dice.getrandbits(128)))}
        count = sum(int(str(entry["count"])) for entry in entries)
        parameters = {**shared, **more, "virtualmachines": json.dumps(entries)}
        self._make(BulkCall("bulkCreateVirtualMachines", prefix, count, parameters))

    def _make(self, call: BulkCall) -> BulkCall:
        """Write a call down and make it, again while nobody knows what it did."""
        with self._journal.lock:
            self._journal.bulk_calls.append(call)
        for _ in range(ATTEMPTS if call.may_be_repeated else 1):
            make(self._dice.choice(self._clients), self._journal, call)
            if not call.is_open:
                break
            self._ended.wait(self._dice.uniform(0.1, 1.5))
        return call

    def _destroy_some(self) -> None:
        for _ in range(self._dice.randint(1, 25)):
            vm = self._journal.some_vm(self._dice, take=True)
            if vm is None or self._ended.is_set():
                return
            if not self._request("destroyVirtualMachine", vm, id=vm, expunge=self._dice.random() < 0.9):
                with self._journal.lock:
                    self._journal.vms.append(vm)
                return

    def _change_vm(self) -> None:
        """Stop or start, and sometimes the other right after."""
        vm = self._journal.some_vm(self._dice)
        if vm is None:
            return
        commands = ["stopVirtualMachine", "startVirtualMachine"]
        if self._dice.random() < 0.5:
            commands.reverse()
        for command in commands[: self._dice.randint(1, 2)]:
            self._request(command, vm, id=vm)

    def _operate(self) -> None:
        """Make one operation on several VMs."""
        vms = {self._journal.some_vm(self._dice) for _ in range(self._dice.randint(2, 40))} - {None}
        command, single = self._dice.choice(list(OPERATIONS.items()))
        more: dict[str, object] = {}
        if command == "bulkUpdateVirtualMachine":
            more["displayname"] = "{name} {n}"
        if command == "bulkScaleVirtualMachine":
            more["serviceofferingid"] = self._names.parameters["serviceofferingid"]
        if vms:
            self._operate_on(set(map(str, vms)), command, single, **more)

    def _remove_and_recover(self) -> None:
        """Destroy several VMs, and recover or expunge those that were destroyed a while later."""
        taken = {self._journal.some_vm(self._dice, take=True) for _ in range(self._dice.randint(1, 8))} - {None}
        vms = set(map(str, taken))
        if not vms:
            return
        destroyed = self._operate_on(vms, "bulkDestroyVirtualMachine", "destroyVirtualMachine")
        if destroyed is not None:
            with self._journal.lock:
                self._journal.vms += vms - destroyed
        self._ended.wait(self._dice.uniform(0.5, 3.0))
        if destroyed and self._dice.random() < 0.5:
            recovered = self._operate_on(destroyed, "bulkRecoverVirtualMachine", "recoverVirtualMachine")
            with self._journal.lock:
                self._journal.vms += recovered or ()
        elif destroyed:
            self._operate_on(destroyed, "bulkExpungeVirtualMachine", "expungeVirtualMachine")

    def _operate_on(self, vms: set[str], command: str, single: str, **more: object) -> set[str] | None:
        """Make one operation on VMs, sometimes with a pace; repeat its call until it is answered.

        Returns the VMs that got jobs, or None if the result of the call is unknown.
        """
        token = str(UUID(int=self._dice.getrandbits(128)))
        call: dict[str, object] = {"ids": ",".join(sorted(vms)), "partial": True, "requesttoken": token, **more}
        if self._dice.random() < 0.5:
            call |= {"maxparallel": self._dice.randint(1, 8), "maxfailures": "50%"}
        answer = self._insist(command, **call)
        made = answer.body["asyncjobs"] if answer is not None and answer.status == 200 else []
        with self._journal.lock:
            for vm in vms if answer is None else ():
                self._journal.requested[vm, single].broken += 1
            for job in made:
                requested = self._journal.requested[job["jobinstanceid"], single]
                requested.answered += 1
                requested.jobs.append(job["jobid"])
            if answer is not None and answer.status != 200:
                self._journal.refusals[reason(answer)] += 1
        return None if answer is None else {job["jobinstanceid"] for job in made}

    def _insist(self, command: str, **parameters: object) -> Answer | None:
        """Repeat a repeatable call until it is answered; return None if its result is unknown."""
        for _ in range(ATTEMPTS):
            answer = self._try(command, **parameters)
            if answer is not None and not leaves_open(answer) and answer.status not in UNEXPECTED:
                return answer
            self._ended.wait(self._dice.uniform(0.1, 1.5))
        return None

    def _manage(self) -> None:
        """Make a managed deployment, or change, replace, pause, resume or disturb one."""
        fleet = self._journal.some_fleet(self._dice)
        if fleet is None or (len(self._journal.fleets) < FLEETS and self._dice.random() < 0.3):
            self._make_fleet()
            return
        one: dict[str, object] = {"id": fleet}
        all_of: dict[str, object] = {"deploymentid": fleet, "partial": True}
        method = self._dice.choice(["Recreate", "Restore"])
        surge: dict[str, object] = {
            "maxsurge": self._dice.randint(0, 3),
            "maxunavailable": self._dice.randint(1, 5),
        }
        changes: list[tuple[str, dict[str, object]]] = [
            ("updateBulkDeployment", {**one, "virtualmachinecount": self._dice.randint(0, MOST_OF_FLEET)}),
            ("updateBulkDeployment", {**one, "autoheal": True, "healafter": 1, "maxunavailable": "50%"}),
            ("updateBulkDeployment", {**one, "healthcheck": "agent", "healthtimeout": 5}),
            (
                "replaceBulkDeployment",
                {**one, **surge, "method": method, "maxfailures": "50%", "expunge": True},
            ),
            ("replaceBulkDeployment", {**one, **surge, "userdata": "YQ==", "pauseafter": "30"}),
            ("replaceBulkDeployment", {**one, "pause": True}),
            ("replaceBulkDeployment", {**one, "rollback": True}),
            ("resumeBulkOperation", one),
            ("bulkStopVirtualMachine", all_of),
            ("bulkStartVirtualMachine", all_of),
            ("bulkDestroyVirtualMachine", {**all_of, "expunge": True}),
        ]
        command, parameters = self._dice.choice(changes)
        answer = self._try(command, **parameters)
        if answer is not None and answer.status != 200:
            with self._journal.lock:
                self._journal.refusals[reason(answer)] += 1

    def _make_fleet(self) -> None:
        self._number += 1
        parameters = {
            **self._names.parameters,
            "nameprefix": f"{self.name}-managed-{self._number}",
            "virtualmachinecount": self._dice.randint(1, MOST_OF_FLEET),
            "managed": True,
            "requesttoken": str(UUID(int=self._dice.getrandbits(128))),
        }
        answer = self._insist("bulkDeployVirtualMachine", **parameters)
        if answer is not None and answer.status == 200:
            with self._journal.lock:
                self._journal.fleets.append(answer.body["asyncjobs"][0]["deploymentid"])

    def _migrate(self) -> None:
        vm = self._journal.some_vm(self._dice)
        if vm is not None and "migrateVirtualMachine" in self._names.commands:
            self._request(
                "migrateVirtualMachine", vm, virtualmachineid=vm, hostid=self._dice.choice(self._names.hosts)
            )

    def _repair(self) -> None:
        """A VM that nothing is wrong with, or that a job leaves half-way just now."""
        vm = self._journal.some_vm(self._dice)
        if vm is not None:
            self._request("repairVirtualMachine", vm, id=vm)

    def _volume(self) -> None:
        """A volume for a VM, which may lose it soon."""
        vm = self._journal.some_vm(self._dice)
        answer = None if vm is None else self._try("createVolume", name="chaos", **self._names.volume)
        if answer is None or answer.status != 200:
            return
        volume = answer.body["id"]
        self._request("attachVolume", volume, id=volume, virtualmachineid=vm)
        self._ended.wait(self._dice.uniform(0.0, 2.0))
        if self._dice.random() < 0.6:
            self._request("detachVolume", volume, id=volume)
        if self._dice.random() < 0.3:
            self._try("deleteVolume", id=volume)

    def _maintain(self) -> None:
        command = self._dice.choice(["prepareHostForMaintenance", "cancelHostMaintenance", "cancelHostMaintenance"])
        if command in self._names.commands:
            host = self._dice.choice(self._names.hosts[:4])
            self._request(command, host, id=host)

    def _balance(self) -> None:
        """A cluster, sometimes by a plan that was looked at first."""
        cluster = self._dice.choice(self._names.clusters)
        call: dict[str, object] = {"clusterid": cluster, "maxmoves": self._dice.randint(1, 30)}
        self._plan_and_apply("balanceZone", cluster, call, "balanceplan")

    def _empty(self) -> None:
        """A host, which is fenced or goes on; sometimes by a plan that was looked at first."""
        host = self._dice.choice(self._names.hosts)
        command = self._dice.choice(["migrateHost", "evacuateHost"])
        call: dict[str, object] = {"id": host, **({"force": True} if command == "evacuateHost" else {})}
        self._plan_and_apply(command, host, call, "plan")

    def _plan_and_apply(self, command: str, subject: str, call: dict[str, object], plan: str) -> None:
        if self._dice.random() < 0.5:
            shown = self._try(command, **call, dryrun=True)
            if shown is None or shown.status != 200 or "index" not in shown.body[plan]:
                return
            self._ended.wait(self._dice.uniform(0.0, 1.0))
            call = {**call, "planindex": shown.body[plan]["index"]}
        self._request(command, subject, **call)

    def _take_back(self) -> None:
        """A host that is Down, as somebody who has repaired it does."""
        answer = self._try("listHosts", state="Down")
        if answer is not None and answer.status == 200 and answer.body.get("host"):
            host = self._dice.choice(answer.body["host"])["id"]
            self._request("reconnectHost", host, id=host)

    def _cancel(self) -> None:
        job = self._journal.some_job(self._dice)
        if job is not None:
            self._cancel_of(job)

    def _cancel_of(self, job: str) -> None:
        answer = self._try("queryAsyncJobResult", jobid=job)
        if answer is not None and answer.status == 200 and "deploymentid" in answer.body:
            deployment = answer.body["deploymentid"]
            self._request("cancelBulkDeployment", deployment, id=deployment)

    def _poll(self) -> None:
        job = self._journal.some_job(self._dice)
        answer = None if job is None else self._try("queryAsyncJobResult", jobid=job)
        if job is not None and answer is not None and answer.status == 200:
            saw(self._journal, job, answer)

    def _request(self, command: str, subject: str, **parameters: object) -> bool:
        """A call that makes a job for something; written down under its id. Whether it was answered."""
        answer = self._try(command, **parameters)
        with self._journal.lock:
            requested = self._journal.requested[subject, command]
            if answer is None or leaves_open(answer):
                requested.broken += 1
            elif answer.status == 200:
                requested.answered += 1
                requested.jobs += [answer.body["jobid"]] if "jobid" in answer.body else []
            else:
                self._journal.refusals[reason(answer)] += 1
        return answer is not None and answer.status == 200

    def _try(self, command: str, **parameters: object) -> Answer | None:
        answer = attempt(self._dice.choice(self._clients), self._journal, command, **parameters)
        if answer is None or answer.status in UNEXPECTED:
            self._ended.wait(self._dice.uniform(0.1, 1.0))
        return answer


def attempt(client: ApiClient, journal: Journal, command: str, **parameters: object) -> Answer | None:
    """One call; None: the connection broke before the answer was there."""
    try:
        answer = client.post(command, **parameters)
        answer.body  # noqa: B018 - an answer cut in the middle is none
    except (http.client.HTTPException, OSError, ValueError):
        answer = None
    with journal.lock:
        journal.calls["broken" if answer is None else "answered" if answer.status == 200 else "refused"] += 1
    return answer


def make(client: ApiClient, journal: Journal, call: BulkCall) -> None:
    """Make a deploy call, and write down what was answered."""
    answer = attempt(client, journal, call.command, **call.parameters)
    with journal.lock:
        if answer is None or leaves_open(answer) or (answer.status in UNEXPECTED and call.broken):
            call.broken += 1
        elif answer.status != 200:
            call.refusal = reason(answer)
            journal.refusals[call.refusal] += 1
        elif call.dry:
            call.refusal = "dry run"
        else:
            jobs = answer.body.get("asyncjobs") or [
                {"jobid": answer.body["jobid"], "jobinstanceid": answer.body["id"]}
            ]
            call.jobs = [job["jobid"] for job in jobs]
            journal.vms += [job["jobinstanceid"] for job in jobs]


def leaves_open(answer: Answer) -> bool:
    """Whether it says that nobody knows what the call did."""
    return answer.status == 530 and "whether it was done is not known" in answer.text


def saw(journal: Journal, job: str, answer: Answer) -> None:
    """Write down a job's end, if it has one."""
    body = answer.body
    if body["jobstatus"] != 0:
        journal.saw_end(job, body["jobstatus"], json.dumps(body["jobresult"], sort_keys=True))


def reason(answer: Answer) -> str:
    """A refusal without what differs from call to call."""
    text = str(answer.body.get("errortext", ""))
    return f"{answer.status} " + " ".join(word for word in text.split()[:12] if not any(c.isdigit() for c in word))
