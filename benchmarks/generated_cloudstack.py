"""A server that answers list calls as a CloudStack of any size does, from generated rows: its CPU is not ours.

``python -m benchmarks.generated_cloudstack HOSTS VMS [EVENTS]`` prints its port and serves until it is ended. From
its start on EVENTS VMs a second get another name, with an event for each, and each minute ten hosts fall silent
and ten others answer again. The command ``countCalls`` tells how many calls there were, by command.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import orjson

HOSTS_PER_CLUSTER, CLUSTERS_PER_POD, ACCOUNTS = 25, 10, 100
GIB = 1 << 30
KINDS = (
    *("domain", "account", "user", "role", "zone", "wires", "pod", "cluster", "host", "pool", "offering"),
    *("disk", "netoffering", "template", "group", "network", "range", "vm", "volume", "nic"),
)
Rows = tuple[int, Callable[[int], dict[str, Any]]]


def uuid_of(kind: str, number: int = 0) -> str:
    """The id of a thing: always the same."""
    return str(UUID(int=(4 << 76) | (8 << 60) | ((KINDS.index(kind) + 1) << 96) | number))


def address(base: int, number: int) -> str:
    """An IPv4 address of a block."""
    return f"{base}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


class Cloud:
    """The lists of a cloud of one zone, by command: how many rows, and each by its number."""

    def __init__(self, hosts: int, vms: int, events_per_s: float = 0.0) -> None:
        self.hosts, self.vms, self.events_per_s = hosts, vms, events_per_s
        self.calls: Counter[str] = Counter()
        self._began = time.time()
        self.clusters = hosts // HOSTS_PER_CLUSTER
        self.lists: dict[str, tuple[str, Rows]] = {
            "listDomains": ("domain", (1, lambda _: {"id": uuid_of("domain"), "name": "ROOT", "level": 0})),
            "listRoles": ("role", (1, lambda _: {"id": uuid_of("role"), "name": "User", "type": "User"})),
            "listAccounts": ("account", (ACCOUNTS, self._account)),
            "listZones": ("zone", (1, self._zone)),
            "listPhysicalNetworks": ("physicalnetwork", (1, self._wires)),
            "listPods": ("pod", (max(self.clusters // CLUSTERS_PER_POD, 1), self._pod)),
            "listClusters": ("cluster", (self.clusters, self._cluster)),
            "listHosts": ("host", (hosts, self._host)),
            "listStoragePools": ("storagepool", (self.clusters, self._pool)),
            "listServiceOfferings": ("serviceoffering", (1, self._offering)),
            "listNetworkOfferings": ("networkoffering", (1, self._network_offering)),
            "listTemplates": ("template", (1, self._template)),
            "listNetworks": ("network", (1, self._network)),
            "listVlanIpRanges": ("vlaniprange", (1, self._range)),
            "listVirtualMachines": ("virtualmachine", (vms, self._vm)),
            "listVolumes": ("volume", (vms, self._volume)),
        }

    def answer(self, given: dict[str, str]) -> bytes:
        """The answer to a call."""
        command = given["command"]
        inner: dict[str, Any] = {}
        if command == "countCalls":
            return orjson.dumps(self.calls)
        self.calls[command] += 1
        if "projectid" not in given:
            if "ids" in given or "virtualmachineid" in given:
                inner = self._some(command, given)
            elif command == "listEvents":
                inner = self._page("event", self._happened(), self._event, given)
            elif command in self.lists:
                name, (count, row) = self.lists[command]
                inner = self._page(name, count, row, given)
        return orjson.dumps({f"{command.lower()}response": inner})

    def _page(
        self, name: str, count: int, row: Callable[[int], dict[str, Any]], given: dict[str, str]
    ) -> dict[str, Any]:
        size, page = int(given["pagesize"]), int(given["page"])
        shown = [row(number) for number in range(size * (page - 1), min(size * page, count))]
        return {"count": count, name: shown} if shown else {}

    def _some(self, command: str, given: dict[str, str]) -> dict[str, Any]:
        """Those with these ids; a VM's volume has its number."""
        name, (_, row) = self.lists[command]
        wanted = given.get("ids") or given["virtualmachineid"]
        shown = [row(UUID(one).int & 0xFFFFFFFF) for one in wanted.split(",")]
        return {"count": len(shown), name: shown}

    def _happened(self) -> int:
        """Events so far."""
        return int((time.time() - self._began) * self.events_per_s)

    def _event(self, number: int) -> dict[str, Any]:
        """An event, the newest first."""
        oldest = self._happened() - 1 - number
        when = datetime.fromtimestamp(self._began + (oldest + 1) / self.events_per_s, UTC)
        return {
            "id": str(UUID(int=oldest)),
            "type": "VM.UPDATE",
            "state": "Completed",
            "created": when.strftime("%Y-%m-%dT%H:%M:%S+0000"),
            "resourcetype": "VirtualMachine",
            "resourceid": uuid_of("vm", oldest % self.vms),
        }

    def _place(self, host: int) -> dict[str, str]:
        cluster = host // HOSTS_PER_CLUSTER
        return {
            "zoneid": uuid_of("zone"),
            "podid": uuid_of("pod", cluster // CLUSTERS_PER_POD),
            "clusterid": uuid_of("cluster", cluster),
        }

    def _account(self, number: int) -> dict[str, Any]:
        return {
            "id": uuid_of("account", number),
            "name": f"account-{number}",
            "domainid": uuid_of("domain"),
            "state": "enabled",
            "accounttype": 0,
            "roleid": uuid_of("role"),
        }

    def _zone(self, _: int) -> dict[str, Any]:
        fixed = {"name": "large", "networktype": "Advanced", "dns1": "10.0.0.2", "internaldns1": "10.0.0.3"}
        return {"id": uuid_of("zone"), **fixed, "allocationstate": "Enabled", "securitygroupsenabled": False}

    def _wires(self, _: int) -> dict[str, Any]:
        return {"id": uuid_of("wires"), "name": "wires", "zoneid": uuid_of("zone"), "vlan": "100-199"}

    def _pod(self, number: int) -> dict[str, Any]:
        return {"id": uuid_of("pod", number), "name": f"pod-{number}", "zoneid": uuid_of("zone")}

    def _cluster(self, number: int) -> dict[str, Any]:
        place = self._place(number * HOSTS_PER_CLUSTER)
        return {
            "id": place.pop("clusterid"),
            "name": f"cluster-{number}",
            "hypervisortype": "KVM",
            **place,
            "clustertype": "CloudManaged",
            "allocationstate": "Enabled",
            "managedstate": "Managed",
            "cpuovercommitratio": "2.0",
            "memoryovercommitratio": "1.0",
        }

    def _host(self, number: int) -> dict[str, Any]:
        return {
            "id": uuid_of("host", number),
            "name": f"host-{number}",
            **self._place(number),
            "ipaddress": address(11, number),
            "hypervisor": "KVM",
            "type": "Routing",
            "cpunumber": 64,
            "cpuspeed": 2500,
            "cpusockets": 2,
            "memorytotal": 512 * GIB,
            "state": "Down" if self.events_per_s and number // 10 == self._minute() % 100 else "Up",
            "resourcestate": "Enabled",
        }

    def _minute(self) -> int:
        return int(time.time() - self._began) // 60

    def _pool(self, number: int) -> dict[str, Any]:
        return {
            "id": uuid_of("pool", number),
            "name": f"pool-{number}",
            "scope": "CLUSTER",
            "state": "Up",
            **self._place(number * HOSTS_PER_CLUSTER),
            "type": "NetworkFilesystem",
            "ipaddress": address(12, number),
            "path": "/export",
            "disksizetotal": 100_000 * GIB,
            "overprovisionfactor": "2.0",
        }

    def _offering(self, _: int) -> dict[str, Any]:
        sizes = {"cpunumber": 2, "cpuspeed": 1000, "memory": 4096}
        return {
            "id": uuid_of("offering"),
            "name": "Medium",
            "displaytext": "Medium",
            "storagetype": "shared",
            **sizes,
        }

    def _network_offering(self, _: int) -> dict[str, Any]:
        fixed = {"guestiptype": "Shared", "traffictype": "Guest", "specifyvlan": True, "state": "Enabled"}
        return {"id": uuid_of("netoffering"), "name": "Shared by all", "displaytext": "Shared by all", **fixed}

    def _template(self, _: int) -> dict[str, Any]:
        fixed = {"name": "Debian", "displaytext": "Debian", "format": "QCOW2", "hypervisor": "KVM", "size": 2 * GIB}
        return {"id": uuid_of("template"), **fixed, "zoneid": uuid_of("zone"), "isready": True, "ispublic": True}

    def _network(self, _: int) -> dict[str, Any]:
        return {
            "id": uuid_of("network"),
            "name": "guests",
            "displaytext": "guests",
            "zoneid": uuid_of("zone"),
            "networkofferingid": uuid_of("netoffering"),
            "type": "Shared",
            "traffictype": "Guest",
            "acltype": "Domain",
            "domainid": uuid_of("domain"),
            "vlan": "100",
            "subdomainaccess": True,
            "gateway": "10.0.0.1",
            "netmask": "255.0.0.0",
            "cidr": "10.0.0.0/8",
        }

    def _range(self, _: int) -> dict[str, Any]:
        return {
            "id": uuid_of("range"),
            "networkid": uuid_of("network"),
            "zoneid": uuid_of("zone"),
            "startip": "10.0.0.10",
            "endip": "10.255.255.254",
            "gateway": "10.0.0.1",
            "netmask": "255.0.0.0",
            "forvirtualnetwork": False,
        }

    def _owner(self, number: int) -> dict[str, str]:
        return {"account": f"account-{number % ACCOUNTS}", "domainid": uuid_of("domain")}

    def _vm(self, number: int) -> dict[str, Any]:
        host = number % self.hosts
        nic = {
            "id": uuid_of("nic", number),
            "networkid": uuid_of("network"),
            "isdefault": True,
            "ipaddress": address(10, number + 256),
            "gateway": "10.0.0.1",
            "netmask": "255.0.0.0",
            "macaddress": ":".join(f"{byte:02x}" for byte in (2 << 40 | number).to_bytes(6)),
        }
        return {
            "id": uuid_of("vm", number),
            "name": f"vm-{number}",
            "displayname": f"vm-{number}" + (", renamed" if number < self._happened() else ""),
            "instancename": f"i-2-{number}-VM",
            "zoneid": uuid_of("zone"),
            "hostid": uuid_of("host", host),
            "hypervisor": "KVM",
            "state": "Running",
            "serviceofferingid": uuid_of("offering"),
            "templateid": uuid_of("template"),
            "cpunumber": 2,
            "cpuspeed": 1000,
            "memory": 4096,
            **self._owner(number),
            "nic": [nic],
        }

    def _volume(self, number: int) -> dict[str, Any]:
        cluster = number % self.hosts // HOSTS_PER_CLUSTER
        return {
            "id": uuid_of("volume", number),
            "name": f"ROOT-{number}",
            "type": "ROOT",
            "deviceid": 0,
            "virtualmachineid": uuid_of("vm", number),
            "zoneid": uuid_of("zone"),
            "size": 2 * GIB,
            "storageid": uuid_of("pool", cluster),
            "state": "Ready",
            **self._owner(number),
        }


def main(hosts: int, vms: int, events_per_s: float = 0.0) -> None:
    """Serve until the process is ended."""
    cloud = Cloud(hosts, vms, events_per_s)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _answer(self, query: str) -> None:
            body = cloud.answer(dict(parse_qsl(query)))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *map(float, sys.argv[3:]))
