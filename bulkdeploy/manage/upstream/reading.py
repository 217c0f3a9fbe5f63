"""Reading a CloudStack, whole or in part: every list that an import needs, each row once."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bulkdeploy.cloudstack.client import CallRefused, Client, Row, rows_in
from bulkdeploy.manage.upstream.sections import OWNED, SOURCES

VM_DETAILS = "group,nics,secgrp,tmpl,servoff,diskoff,iso,affgrp"
VIRTUAL_MACHINES, VOLUMES = "listVirtualMachines", "listVolumes"

ROLE_PERMISSIONS = "listRolePermissions"

PLAIN: Mapping[str, Mapping[str, str]] = {
    ROLE_PERMISSIONS: {},
    VIRTUAL_MACHINES: {**OWNED, "details": VM_DETAILS},
    VOLUMES: OWNED,
}
"""Lists beside those of the sections, with what they are restricted to."""

OF_PROJECTS = frozenset({VIRTUAL_MACHINES, VOLUMES})
"""Of these what projects own is listed by a second call."""

WITHOUT_PAGES = frozenset({ROLE_PERMISSIONS})
"""These take neither page nor size, and answer with all there is."""

BY_CLUSTER = frozenset({"listHosts", VIRTUAL_MACHINES})
"""What can be listed cluster by cluster: a page holds a cluster, so that no page loses a row."""

READ_WITH: Mapping[str, frozenset[str]] = {
    "listRoles": frozenset({ROLE_PERMISSIONS}),
    "listHosts": frozenset({"listClusters"}),
    "listStoragePools": frozenset({"listHosts", "listClusters"}),
}
"""What rows of a list are read with."""

IDS_AT_ONCE = 200
"""Ids of one list call: so many fit into a request that any server takes."""

Rows = dict[str, list[Row]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A part of a CloudStack.

    Attributes:
        commands: lists, each read whole.
        vms: ids of VMs, read with their volumes where these are said there.
        volumes: ids of volumes, read with the VMs that they are attached to.
        ordered: ids of VMs of which we say what volumes they have.
    """

    commands: frozenset[str] = frozenset()
    vms: frozenset[str] = frozenset()
    volumes: frozenset[str] = frozenset()
    ordered: frozenset[str] = frozenset()


@dataclass
class Upstream:
    """One reading of a CloudStack.

    Attributes:
        client: of the CloudStack.
        zones: names or ids of the only zones to read; none: all.
        wanted: the part that is read; None: all.
        rows: by list command, of what was read.
        incomplete: commands whose lists stayed short of their counts; what they lack is not gone.
    """

    client: Client
    zones: Collection[str] = ()
    wanted: Wanted | None = None
    rows: Rows = field(default_factory=dict)
    incomplete: set[str] = field(default_factory=set)

    def read(self) -> None:
        """Read what is wanted.

        Raises:
            CallRefused, NotAnswered: see the client.
        """
        lists = {source.command: (source.parameters, source.of_projects) for source in SOURCES}
        lists |= {command: (parameters, command in OF_PROJECTS) for command, parameters in PLAIN.items()}
        for command, (parameters, of_projects) in lists.items():
            if self._is_wanted(command):
                self.rows[command] = self._kept(command, self._list(command, parameters, of_projects))
        if self.wanted is not None:
            self._read_some(self.wanted)

    def _is_wanted(self, command: str) -> bool:
        if self.wanted is None or (command == "listZones" and self.zones):
            return True
        return command in self.wanted.commands or any(
            command in READ_WITH.get(other, ()) for other in self.wanted.commands
        )

    def _read_some(self, wanted: Wanted) -> None:
        """Read VMs and volumes by their ids."""
        volumes = self._by_ids(VOLUMES, wanted.volumes)
        attached = {str(row["virtualmachineid"]) for row in volumes if row.get("virtualmachineid")}
        vms = {str(row["id"]): row for row in self._by_ids(VIRTUAL_MACHINES, {*wanted.vms, *attached})}
        for row in vms.values():
            if row["id"] not in wanted.ordered:
                of_project = {"projectid": "-1"} if row.get("projectid") else {}
                one = {**OWNED, **of_project, "virtualmachineid": str(row["id"])}
                volumes += self.client.list_all(VOLUMES, one).rows
        there = {str(row["id"]): row for row in volumes}
        self.rows[VIRTUAL_MACHINES] = self._kept(VIRTUAL_MACHINES, list(vms.values()))
        self.rows[VOLUMES] = self._kept(VOLUMES, list(there.values()))

    def _by_ids(self, command: str, ids: Collection[str]) -> list[Row]:
        """Those that are there."""
        found: dict[str, Row] = {}
        for more in ({}, {"projectid": "-1"}):
            left = sorted(set(ids) - found.keys())
            for at in range(0, len(left), IDS_AT_ONCE):
                rows = self._some(command, left[at : at + IDS_AT_ONCE], {**PLAIN[command], **more})
                found |= {str(row["id"]): row for row in rows}
        return list(found.values())

    def _some(self, command: str, ids: Sequence[str], parameters: Mapping[str, str]) -> list[Row]:
        """One call; an id that CloudStack knows no longer, for which it refuses all, is found by halves."""
        try:
            return rows_in(self.client.call(command, {**parameters, "ids": ",".join(ids)}))
        except CallRefused as error:
            if error.code != UNKNOWN:
                raise
            half = len(ids) // 2
            if not half:
                return []
            return [*self._some(command, ids[:half], parameters), *self._some(command, ids[half:], parameters)]

    def _list(self, command: str, parameters: Mapping[str, str], of_projects: bool) -> list[Row]:
        if command in WITHOUT_PAGES:
            return rows_in(self.client.call(command, parameters))
        found: dict[tuple[object, ...], Row] = {}
        key = _key(command)
        for more in ({}, {"projectid": "-1"}) if of_projects else ({},):
            listed = self.client.list_all(command, {**parameters, **more}, key=key)
            rows = {tuple(row.get(name) for name in key): row for row in listed.rows}
            if not listed.is_whole and command in BY_CLUSTER:
                for row in self._by_cluster(command, {**parameters, **more}):
                    rows.setdefault((row["id"],), row)
            if len(rows) < listed.count:
                self.incomplete.add(command)
            found |= rows
        return list(found.values())

    def _by_cluster(self, command: str, parameters: Mapping[str, str]) -> Iterator[Row]:
        for cluster in self.rows["listClusters"]:
            yield from self.client.list_all(command, {**parameters, "clusterid": str(cluster["id"])}).rows

    def _kept(self, command: str, rows: list[Row]) -> list[Row]:
        """The rows of the zones that were asked for, and of none."""
        if not self.zones:
            return rows
        if command == "listZones":
            return [row for row in rows if {str(row["id"]), str(row["name"])} & set(self.zones)]
        kept = {row["id"] for row in self.rows["listZones"]} if "listZones" in self.rows else None
        if kept is None or command in ("listServiceOfferings", "listDiskOfferings"):
            return rows
        return [row for row in rows if row.get("zoneid") is None or row["zoneid"] in kept]


UNKNOWN = 431

IN_EACH_ZONE = frozenset({"listTemplates", "listIsos"})


def _key(command: str) -> tuple[str, ...]:
    """What makes rows the same; templates have one for each zone that has them."""
    return ("id", "zoneid") if command in IN_EACH_ZONE else ("id",)
