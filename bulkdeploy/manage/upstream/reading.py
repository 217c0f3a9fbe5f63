"""Reading a CloudStack completely or in part: all lists that an import needs, each row once."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from bulkdeploy.cloudstack.client import OF_ACCOUNTS, OF_EACH_OWNER, OF_PROJECTS, Client, Row, rows_in
from bulkdeploy.domain.errors import InvalidParameter
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

OWNED_BY_PROJECTS = frozenset({VIRTUAL_MACHINES, VOLUMES})
"""Lists whose rows projects may own: a second call reads these rows."""

WITHOUT_PAGES = frozenset({ROLE_PERMISSIONS})
"""These take neither page nor size, and answer with all there is."""

BY_CLUSTER = frozenset({"listHosts", VIRTUAL_MACHINES, VOLUMES})
"""What can be listed cluster by cluster: a page holds a cluster, so that no page loses a row."""

READ_WITH: Mapping[str, frozenset[str]] = {
    "listRoles": frozenset({ROLE_PERMISSIONS}),
    "listHosts": frozenset({"listClusters"}),
    "listStoragePools": frozenset({"listHosts", "listClusters"}),
}
"""What rows of a list are read with."""

MOST_ONE_BY_ONE = 10
"""Of more new VMs than this the volumes are looked for among the newest of all, 500 a call."""

ROOT = "ROOT"

Rows = dict[str, list[Row]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of a CloudStack that must be read.

    Attributes:
        commands: the list commands whose lists are read completely.
        vms: ids of VMs, which are read with their volumes.
        volumes: ids of volumes, which are read with the VMs that they are attached to.
        ordered: ids of VMs that this service created. Their volumes are in its database and are not read again.
        had: for each id of another VM, the ids of the volumes that the VM had at its last read.
    """

    commands: frozenset[str] = frozenset()
    vms: frozenset[str] = frozenset()
    volumes: frozenset[str] = frozenset()
    ordered: frozenset[str] = frozenset()
    had: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass
class Upstream:
    """The rows that were read from a CloudStack at one time.

    Attributes:
        client: a client of the CloudStack.
        zones: names or ids of the only zones to read. If empty, all zones are read.
        wanted: the part to read, or None for everything.
        rows: the read rows by list command, only of the named zones.
        there: the read rows by list command, of all zones. Imported objects that are missing here no longer exist.
        incomplete: list commands that returned fewer rows than they counted. Objects missing in these lists may
            still exist.
    """

    client: Client
    zones: Collection[str] = ()
    wanted: Wanted | None = None
    rows: Rows = field(default_factory=dict)
    there: Rows = field(default_factory=dict)
    incomplete: set[str] = field(default_factory=set)

    def read(self) -> None:
        """Read all wanted lists of the CloudStack.

        Raises:
            CallRefused: the CloudStack rejected a call.
            NotAnswered: the CloudStack did not respond.
            InvalidParameter: one of the zones does not exist.
        """
        lists = {source.command: (source.parameters, source.of_projects) for source in SOURCES}
        lists |= {command: (parameters, command in OWNED_BY_PROJECTS) for command, parameters in PLAIN.items()}
        for command, (parameters, of_projects) in lists.items():
            if self._is_wanted(command):
                self._keep(command, self._list(command, parameters, of_projects))
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
        there = self._by_ids(VOLUMES, wanted.volumes.union(*wanted.had.values()))
        volumes = {str(row["id"]): row for row in there}
        attached = {str(row["virtualmachineid"]) for row in there if row.get("virtualmachineid")}
        vms = self._by_ids(VIRTUAL_MACHINES, wanted.vms | attached)
        for of_project, more in ((False, OF_ACCOUNTS), (True, OF_PROJECTS)):
            left = {
                str(row["id"])
                for row in vms
                if row["id"] not in wanted.ordered and bool(row.get("projectid")) == of_project
            }
            had_all = {vm for vm in left if _has_all(wanted.had.get(vm), vm, volumes)}
            volumes |= self._volumes_of(left - had_all, {**PLAIN[VOLUMES], **more})
        self._keep(VIRTUAL_MACHINES, vms)
        self._keep(VOLUMES, list(volumes.values()))

    def _volumes_of(self, vms: Collection[str], parameters: Mapping[str, str]) -> dict[str, Row]:
        """Return the volumes of VMs by volume id.

        CloudStack can list the volumes of one VM, or all volumes, newest first. The cheaper way is chosen by the
        number of VMs.
        """
        found: dict[str, Row] = {}
        left = set(vms)
        if len(left) > MOST_ONE_BY_ONE:
            for page, _ in self.client.pages(VOLUMES, parameters):
                theirs = [row for row in page if row.get("virtualmachineid") in vms]
                if not theirs:
                    break
                found |= {str(row["id"]): row for row in theirs}
                left -= {str(row["virtualmachineid"]) for row in theirs if row["type"] == ROOT}
        for vm in left:
            listed = self.client.list_all(VOLUMES, {**parameters, "virtualmachineid": vm})
            found |= {str(row["id"]): row for row in listed.rows}
        return found

    def _by_ids(self, command: str, ids: Collection[str]) -> list[Row]:
        """Return the existing rows with these ids."""
        found: dict[str, Row] = {}
        for more in OF_EACH_OWNER:
            rows = self.client.by_ids(command, set(ids) - found.keys(), {**PLAIN[command], **more})
            found |= {str(row["id"]): row for row in rows}
        return list(found.values())

    def _list(self, command: str, parameters: Mapping[str, str], of_projects: bool) -> list[Row]:
        if command in WITHOUT_PAGES:
            return rows_in(self.client.call(command, parameters))
        found: dict[tuple[object, ...], Row] = {}
        key = _key(command)
        for more in OF_EACH_OWNER if of_projects else ({},):
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

    def _keep(self, command: str, rows: list[Row]) -> None:
        """Store the rows of a list.

        ``there`` gets all rows, and ``rows`` gets the rows of the named zones and rows that belong to no zone.
        """
        self.there[command] = rows
        if not self.zones:
            self.rows[command] = rows
        elif command == "listZones":
            named = (self._zone(name, rows) for name in self.zones)
            self.rows[command] = list({row["id"]: row for row in named}.values())
        elif "listZones" not in self.rows or command in ("listServiceOfferings", "listDiskOfferings"):
            self.rows[command] = rows
        else:
            kept = {None, *(row["id"] for row in self.rows["listZones"])}
            self.rows[command] = [row for row in rows if row.get("zoneid") in kept]

    def _zone(self, named: str, zones: Collection[Row]) -> Row:
        found = next((row for row in zones if named in (row["id"], row["name"])), None)
        if found is None:
            names = ", ".join(sorted(str(row["name"]) for row in zones))
            raise InvalidParameter(
                "zone", named, f"must be the name or id of a zone of the CloudStack: {names or 'none'}"
            )
        return found


def _has_all(had: Collection[str] | None, vm: str, volumes: Mapping[str, Row]) -> bool:
    """Return whether a VM still has all volumes that it had before.

    New volumes are reported by their own events.
    """
    return bool(had) and all(volumes.get(one, {}).get("virtualmachineid") == vm for one in had or ())


IN_EACH_ZONE = frozenset({"listTemplates", "listIsos"})


def _key(command: str) -> tuple[str, ...]:
    """Return the names of the fields that identify a row. Templates have a row for each zone."""
    return ("id", "zoneid") if command in IN_EACH_ZONE else ("id",)
