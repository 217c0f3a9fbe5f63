"""The nodes of a Ganeti cluster: their states, their memory for guests, and nodes that were switched off."""

from collections.abc import Sequence

from bulkdeploy.drivers.errors import ANY_HOST, DriverError, HostDrained
from bulkdeploy.drivers.exchanges.cluster_http import NotAnswered
from bulkdeploy.drivers.ganeti.cluster_state import (
    MEMORY_FIELDS_OF_INSTANCES,
    MEMORY_FIELDS_OF_NODES,
    memory_for_guests,
)
from bulkdeploy.drivers.ganeti.devices import node_of
from bulkdeploy.drivers.ganeti.rapi import JobFailed, Rapi, failure, path_of
from bulkdeploy.drivers.guests import Guest
from bulkdeploy.drivers.hosts import HostAddress


class Nodes:
    """The nodes of one cluster.

    Ganeti's master stores in its configuration which nodes are offline or drained. Whether a node answers is known
    only after the master has queried the node's memory, which also makes the node read its storage. ``read_memory``
    therefore queries all nodes and records the silent ones; ``look_at`` queries only the silent nodes again.

    Args:
        rapi: the client of the cluster.
        reserved_mib: the memory of each node that instances do not get.
        our_tag: the beginning of a tag that each instance of the service has.
    """

    def __init__(self, rapi: Rapi, reserved_mib: int, *, our_tag: str) -> None:
        self._rapi, self._reserved_mib, self._our_tag = rapi, reserved_mib, our_tag
        self._silent: frozenset[str] | None = None
        """The nodes that did not answer the last query. None means that no node was queried yet."""

    def look_at(self, hosts: Sequence[HostAddress], *, timeout_s: float) -> list[Sequence[Guest] | DriverError]:
        """Return the state of each node as ``HypervisorDriver.look_at_hosts`` does; guests are not listed."""
        fields = ("name", "offline", "drained", "vm_capable")
        try:
            rows = self._rapi.query("node", fields, timeout_s=timeout_s)
        except (NotAnswered, JobFailed) as error:
            raise failure("look", ANY_HOST, error) from error
        flags = {name: (offline, drained, capable) for name, offline, drained, capable in rows}
        silent = self._query_silent(timeout_s)
        return [_state_of(host, flags.get(node_of(host)), answers=node_of(host) not in silent) for host in hosts]

    def answers(self, node: str, *, timeout_s: float) -> bool:
        """Return whether a node answers Ganeti's master. An error counts as False."""
        try:
            rows = self._rapi.query("node", MEMORY_FIELDS_OF_NODES, ["=", "name", node], timeout_s=timeout_s)
        except (NotAnswered, JobFailed):
            return False
        return any(not offline and memory is not None for _, offline, memory in rows)

    def read_memory(self, step: str, *, timeout_s: float) -> dict[str, int]:
        """Return the memory in MiB that the service's instances may use, by the names of nodes that answer.

        Raises:
            DriverError: Ganeti does not answer.
        """
        try:
            instances = self._rapi.query("instance", MEMORY_FIELDS_OF_INSTANCES, timeout_s=timeout_s)
            nodes = self._rapi.query("node", MEMORY_FIELDS_OF_NODES, timeout_s=timeout_s)
        except (NotAnswered, JobFailed) as error:
            raise failure(step, ANY_HOST, error) from error
        self._silent = _silent_among(nodes)
        return memory_for_guests(nodes, instances, reserved_mib=self._reserved_mib, tag=self._our_tag)

    def is_offline(self, node: str, *, timeout_s: float) -> bool:
        """Return whether a node was set offline.

        Raises:
            NotAnswered, JobFailed: the query failed.
        """
        found = self._rapi.query("node", ("offline",), ["=", "name", node], timeout_s=timeout_s)
        return bool(found and found[0][0])

    def set_offline(self, node: str, *, timeout_s: float) -> None:
        """Set a switched-off node offline in Ganeti, so that its instances can start on other nodes.

        If the node is a master candidate, Ganeti promotes another node. An offline node is not changed.

        Raises:
            DriverError: Ganeti did not answer, or rejected the change, as it does for the master node.
        """
        body = {"offline": True, "auto_promote": True, "force": True}
        try:
            if not self.is_offline(node, timeout_s=timeout_s):
                self._rapi.run("POST", path_of("nodes", node, "modify"), body, timeout_s=timeout_s)
        except (NotAnswered, JobFailed) as error:
            raise failure("fence", node, error) from error

    def _query_silent(self, timeout_s: float) -> frozenset[str]:
        """Query the nodes that did not answer last time, and return those that still do not answer.

        If the query fails, the previous result is returned. If it fails the first time, no node counts as silent,
        so that the next check does not wait for all nodes again. ``read_memory`` queries all nodes regularly.
        """
        if self._silent is not None and not self._silent:
            return self._silent
        where = None if self._silent is None else ["|", *(["=", "name", node] for node in sorted(self._silent))]
        try:
            self._silent = _silent_among(
                self._rapi.query("node", MEMORY_FIELDS_OF_NODES, where, timeout_s=timeout_s)
            )
        except (NotAnswered, JobFailed):
            self._silent = self._silent or frozenset()
        return self._silent


def _silent_among(nodes: Sequence[Sequence[object]]) -> frozenset[str]:
    """Return the nodes that are not offline and whose memory is unknown."""
    return frozenset(str(name) for name, offline, memory in nodes if not offline and memory is None)


def _state_of(
    host: HostAddress, flags: tuple[bool, bool, bool] | None, *, answers: bool
) -> Sequence[Guest] | DriverError:
    """Return the state of a node as ``HypervisorDriver.look_at_hosts`` does, without guests.

    ``flags`` are offline, drained and vm_capable, or None for an unknown node. A node that is not vm_capable need
    not answer, because Ganeti never queries its memory.
    """
    if flags is None:
        return DriverError("look", host.name, "the cluster has no such node", transient=False)
    offline, drained, capable = flags
    if offline:
        return DriverError("look", host.name, "the node is offline in Ganeti", transient=True)
    if capable and not answers:
        return DriverError("look", host.name, "the node does not answer Ganeti's master", transient=True)
    if drained or not capable:
        state = "drained" if drained else "not vm_capable"
        return HostDrained("look", host.name, f"the node is {state} in Ganeti", transient=True)
    return []
