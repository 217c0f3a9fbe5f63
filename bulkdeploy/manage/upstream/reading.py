"""Reading a whole CloudStack: every list that an import needs, each row once."""

from collections.abc import Iterator, Mapping, Sequence

from bulkdeploy.cloudstack.client import Client, Row
from bulkdeploy.manage.upstream.sections import OWNED, SOURCES

VM_DETAILS = "group,nics,secgrp,tmpl,servoff,diskoff,iso,affgrp"

PLAIN: Mapping[str, Mapping[str, str]] = {
    "listRolePermissions": {},
    "listVirtualMachines": {**OWNED, "details": VM_DETAILS},
    "listVolumes": OWNED,
}
"""Lists beside those of the sections, with what they are restricted to."""

OF_PROJECTS = frozenset({"listVirtualMachines", "listVolumes"})
"""Of these what projects own is listed by a second call."""

BY_CLUSTER = frozenset({"listHosts", "listVirtualMachines"})
"""What can be listed cluster by cluster: a page holds a cluster, so that no page loses a row."""

Rows = dict[str, list[Row]]


class Upstream:
    """One reading of a CloudStack.

    Attributes:
        rows: by list command.
        incomplete: commands whose lists stayed short of their counts; what they lack is not gone.
    """

    def __init__(self, client: Client, zones: Sequence[str] = ()) -> None:
        """``zones``: names or ids of the only zones to read."""
        self._client, self._zones = client, frozenset(zones)
        self.rows: Rows = {}
        self.incomplete: set[str] = set()

    def read(self) -> Rows:
        """Read all lists.

        Raises:
            CallRefused, NotAnswered: see the client.
        """
        wanted = {source.command: (source.parameters, source.of_projects) for source in SOURCES}
        wanted |= {command: (parameters, command in OF_PROJECTS) for command, parameters in PLAIN.items()}
        for command, (parameters, of_projects) in wanted.items():
            self.rows[command] = self._kept(command, self._list(command, parameters, of_projects))
        return self.rows

    def _list(self, command: str, parameters: Mapping[str, str], of_projects: bool) -> list[Row]:
        found: dict[tuple[object, ...], Row] = {}
        key = _key(command)
        for more in ({}, {"projectid": "-1"}) if of_projects else ({},):
            listed = self._client.list_all(command, {**parameters, **more}, key=key)
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
            yield from self._client.list_all(command, {**parameters, "clusterid": str(cluster["id"])}).rows

    def _kept(self, command: str, rows: list[Row]) -> list[Row]:
        """The rows of the zones that were asked for, and of none."""
        if not self._zones:
            return rows
        if command == "listZones":
            return [row for row in rows if self._zones & {str(row["id"]), str(row["name"])}]
        kept = {row["id"] for row in self.rows["listZones"]} if "listZones" in self.rows else None
        if kept is None or command in ("listServiceOfferings", "listDiskOfferings"):
            return rows
        return [row for row in rows if row.get("zoneid") is None or row["zoneid"] in kept]


IN_EACH_ZONE = frozenset({"listTemplates", "listIsos"})


def _key(command: str) -> tuple[str, ...]:
    """What makes rows the same; templates have one for each zone that has them."""
    return ("id", "zoneid") if command in IN_EACH_ZONE else ("id",)
