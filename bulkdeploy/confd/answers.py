"""The answers to each type of confd query, computed from a copy of the inventory without I/O.

Hosts are Ganeti's nodes, VMs are its instances, and networks are its links. Confd servers are its master
candidates, and the first of them is the master. The format of the answers is that of Ganeti's Confd/Server.hs,
version 3.0.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from bulkdeploy.confd.messages import QueryType, Status
from bulkdeploy.store.whereabouts import Whereabouts

MASTER, CANDIDATE, OFFLINE, DRAINED, REGULAR = range(5)
"""The roles of nodes."""

UNKNOWN_ENTRY, INTERNAL, ARGUMENT = range(3)
"""The error codes of answers: unknown object, internal error, wrong argument."""

LINK, ADDRESS, ADDRESSES, FIELDS = "0", "1", "2", "3"
"""The keys in a query that is an object."""

Answer: TypeAlias = tuple[Status, Any]

_UNKNOWN: Answer = (Status.ERROR, UNKNOWN_ENTRY)
_WRONG: Answer = (Status.ERROR, ARGUMENT)

_MIB = 1 << 20

UUIDS_OF_A_PAGE = 1000
"""The number of VM uuids in one entry of ``/instance_uuids``, which fits into one datagram."""


class Directory:
    """An immutable copy of the inventory, indexed for queries.

    Args:
        serial: a number that grows with every change of the inventory.
        found: the inventory.
        servers: the addresses of the confd servers.
    """

    def __init__(self, serial: int, found: Whereabouts, servers: Sequence[str]) -> None:
        self.serial, self._version, self._servers = serial, found.version, tuple(servers)
        self._hosts = {host["id"]: host for host in found.hosts}
        self._host_of_key = _unambiguous(
            (key, host) for host in found.hosts for key in (host["name"], host["uuid"])
        )
        self._vms = {vm["id"]: vm for vm in found.vms}
        self._vm_of_key = _unambiguous(
            (key, vm) for vm in found.vms for key in (vm["name"], vm["instance_name"], vm["uuid"])
        )
        self._found = found
        self._instances_of_host: dict[int, list[Mapping[str, Any]]] = {host: [] for host in self._hosts}
        for vm in found.vms:
            if vm["host_id"] in self._instances_of_host:
                self._instances_of_host[vm["host_id"]].append(vm)

    def answer(self, kind: QueryType, query: Any) -> Answer:
        """Return the status and the answer of a query of this type."""
        if kind not in _ANSWERS:
            return Status.NOT_IMPLEMENTED, f"query type {kind.value} is not implemented"
        return _ANSWERS[kind](self, query)

    def ping(self, _query: Any) -> Answer:
        """Return the version of the database's schema, as the version of the configuration."""
        return Status.OK, self._version

    def node_role(self, query: Any) -> Answer:
        """Return the role of a host or of a confd server, which the query names.

        A disabled host is DRAINED; an enabled host is REGULAR if it is up, otherwise OFFLINE.
        """
        if not isinstance(query, str):
            return _WRONG
        if query in self._servers:
            return Status.OK, MASTER if query == self._servers[0] else CANDIDATE
        host = self._host_of_key.get(query)
        if host is None:
            return _UNKNOWN
        if host["resource_state"] != "Enabled":
            return Status.OK, DRAINED
        return Status.OK, REGULAR if host["state"] == "Up" else OFFLINE

    def node_of_address(self, query: Any) -> Answer:
        """Return the address of the host that runs the VM with the address in the query.

        If the query has a list of addresses, the answer is a list of answers.
        """
        if not isinstance(query, dict):
            return _WRONG
        link, address, several = query.get(LINK), query.get(ADDRESS), query.get(ADDRESSES)
        if not (link is None or isinstance(link, str)):
            return _WRONG
        if isinstance(address, str):
            return self._host_address(link, address)
        if address is None and isinstance(several, list) and all(isinstance(one, str) for one in several):
            return Status.OK, [self._host_address(link, one) for one in several]
        return _WRONG

    def master(self, query: Any) -> Answer:
        """Return the address of the first confd server.

        If the query lists fields, the answer has the address once for each field.
        """
        if query is None:
            return (Status.OK, self._servers[0]) if self._servers else _UNKNOWN
        fields = query.get(FIELDS) if isinstance(query, dict) else None
        if not isinstance(fields, list) or not all(type(field) is int and 0 <= field <= 2 for field in fields):
            return _WRONG
        return (Status.OK, [self._servers[0]] * len(fields)) if self._servers else _UNKNOWN

    def nodes(self, _query: Any) -> Answer:
        """Return the addresses of all hosts."""
        return Status.OK, [host["ip_address"] for host in self._hosts.values()]

    def candidates(self, _query: Any) -> Answer:
        """Return the addresses of the confd servers."""
        return Status.OK, list(self._servers)

    def addresses(self, query: Any) -> Answer:
        """Return the addresses of all VMs in the network that the query names, or in all networks."""
        if not (query is None or isinstance(query, str)):
            return _WRONG
        return Status.OK, list(self._vm_by_address.get(query, {}))

    def instances(self, query: Any) -> Answer:
        """Return two lists for a host: the VMs that run on it, and the VMs mirrored on it.

        The second list is always empty, because no VM is mirrored.
        """
        host = self._host_of_key.get(query) if isinstance(query, str) else None
        if not isinstance(query, str):
            return _WRONG
        if host is None:
            return _UNKNOWN
        return Status.OK, [[self._instance(vm) for vm in self._instances_of_host[host["id"]]], []]

    def disks(self, query: Any) -> Answer:
        """Return the volumes of a VM, with sizes in MiB."""
        vm = self._vm_of_key.get(query) if isinstance(query, str) else None
        if not isinstance(query, str):
            return _WRONG
        return _UNKNOWN if vm is None else (Status.OK, self._disks_of_vm.get(vm["id"], []))

    def configuration(self, query: Any) -> Answer:
        """Return the part of the inventory to which a JSON pointer (RFC 6901) points."""
        if not isinstance(query, str) or (query and not query.startswith("/")):
            return _WRONG
        value: Any = self._document
        for part in query.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(value):
                value = value[int(key[:9])]
            else:
                return _UNKNOWN
        return Status.OK, value

    def _host_address(self, link: str | None, address: str) -> Answer:
        vm = self._vm_by_address.get(link, {}).get(address)
        host = None if vm is None else self._hosts.get(self._vms[vm]["host_id"])
        return _UNKNOWN if host is None else (Status.OK, host["ip_address"])

    def _instance(self, vm: Mapping[str, Any]) -> dict[str, Any]:
        host = self._hosts.get(vm["host_id"])
        return {
            "name": vm["name"],
            "uuid": vm["uuid"],
            "primary_node": None if host is None else host["uuid"],
            "admin_state": "up" if vm["host_id"] else "down",
            "beparams": {"memory": vm["memory_mib"], "vcpus": vm["cpu_number"]},
            "disks": [disk["uuid"] for disk in self._disks_of_vm.get(vm["id"], [])],
        }

    @cached_property
    def _vm_by_address(self) -> dict[str | None, dict[str, int]]:
        """The VM with each address, by network name and network uuid.

        The key None contains the addresses of all networks, without those that several VMs have.
        """
        found: dict[str | None, dict[str, int]] = {}
        repeated = set()
        for row in self._found.addresses:
            if row["vm_id"] not in self._vms:
                continue
            for link in {row["network"], row["network_name"]}:
                found.setdefault(link, {})[row["address"]] = row["vm_id"]
            everywhere = found.setdefault(None, {})
            if everywhere.setdefault(row["address"], row["vm_id"]) != row["vm_id"]:
                repeated.add(row["address"])
        for address in repeated:
            del found[None][address]
        return found

    @cached_property
    def _disks_of_vm(self) -> dict[int, list[dict[str, Any]]]:
        found: dict[int, list[dict[str, Any]]] = {}
        for row in self._found.volumes:
            disk = {"uuid": row["uuid"], "name": row["name"], "size": row["size_bytes"] // _MIB, "mode": "rw"}
            found.setdefault(row["vm_id"], []).append({**disk, "dev_type": row["pool_type"], "pool": row["pool"]})
        return found

    @cached_property
    def _document(self) -> dict[str, Any]:
        uuids = sorted(vm["uuid"] for vm in self._vms.values())
        return {
            "version": self._version,
            "serial_no": self.serial,
            "cluster": {"serial_no": self.serial, "master_candidates": list(self._servers)},
            "nodes": {
                host["uuid"]: {
                    "name": host["name"],
                    "uuid": host["uuid"],
                    "primary_ip": host["ip_address"],
                    "group": host["cluster"],
                    "offline": host["state"] != "Up",
                    "drained": host["resource_state"] != "Enabled",
                }
                for host in self._hosts.values()
            },
            "instances": {vm["uuid"]: self._instance(vm) for vm in self._vms.values()},
            "instance_uuids": [
                uuids[first : first + UUIDS_OF_A_PAGE] for first in range(0, len(uuids), UUIDS_OF_A_PAGE)
            ],
        }


_ANSWERS: Mapping[QueryType, Callable[[Directory, Any], Answer]] = {
    QueryType.PING: Directory.ping,
    QueryType.NODE_ROLE: Directory.node_role,
    QueryType.NODE_OF_ADDRESS: Directory.node_of_address,
    QueryType.MASTER: Directory.master,
    QueryType.NODES: Directory.nodes,
    QueryType.CANDIDATES: Directory.candidates,
    QueryType.ADDRESSES: Directory.addresses,
    QueryType.INSTANCES: Directory.instances,
    QueryType.DISKS: Directory.disks,
    QueryType.CONFIGURATION: Directory.configuration,
}


def _unambiguous(pairs: Any) -> dict[str, Mapping[str, Any]]:
    """Return the row of each key, without the keys of several rows."""
    found: dict[str, Mapping[str, Any]] = {}
    repeated = set()
    for key, row in pairs:
        if found.setdefault(key, row)["id"] != row["id"]:
            repeated.add(key)
    return {key: row for key, row in found.items() if key not in repeated}
