"""The events of a CloudStack, read newest first, and the objects that must be read again because of them."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from bulkdeploy.cloudstack.client import OF_EACH_OWNER, Client, Row
from bulkdeploy.domain.events import EventType
from bulkdeploy.manage.upstream.reading import Wanted

EVENTS = "listEvents"

OVERLAP = timedelta(seconds=60)
"""Events may be written so much later than they say, since management servers have clocks of their own."""

ANY_ZONE = timedelta(days=1)
"""A day that is given is read in the time zone of the management server: a day earlier is early enough for all."""

MOST_EVENTS = 10_000
"""With more events than this, reading everything is the smaller part."""

MOST_VMS = 400
"""VMs and volumes that are read at a time; events that name more wait for the next round."""

BEFORE_ALL = datetime.fromtimestamp(0, UTC)

UNDER_WAY = frozenset({"Scheduled", "Started"})
"""States of events before the end of what they tell of."""

OF_VMS = frozenset({"VirtualMachine", "UserVm"})
OF_VOLUMES = frozenset({"Volume"})
SIGNING_IN = ("LOGIN", "LOGOUT")

LISTS: Mapping[str, tuple[str, ...]] = {
    "ACCOUNT.": ("listAccounts", "listUsers"),
    "AG.": ("listAffinityGroups",),
    "CHANGE.STORAGE.POOL": ("listStoragePools",),
    "CLUSTER.": ("listClusters",),
    "CONFIGURATION.": ("listClusters", "listStoragePools"),
    "DISABLE.PS": ("listStoragePools",),
    "DISK.OFFERING.": ("listDiskOfferings",),
    "DOMAIN.": ("listDomains",),
    "ENABLE.PS": ("listStoragePools",),
    EventType.HOST_HA_TRANSITION.value: ("listHosts",),
    "HOST.": ("listHosts",),
    "ISO.": ("listIsos",),
    "MAINT.": ("listHosts", "listStoragePools"),
    "NETWORK.OFFERING.": ("listNetworkOfferings",),
    "NETWORK.": ("listNetworks", "listVlanIpRanges"),
    "PHYSICAL.": ("listPhysicalNetworks",),
    "POD.": ("listPods",),
    "PROJECT.": ("listProjects",),
    "ROLE.": ("listRoles",),
    "SERVICE.OFFERING.": ("listServiceOfferings",),
    "SG.": ("listSecurityGroups",),
    "STORAGE.POOL.": ("listStoragePools",),
    "SYNC.STORAGE.POOL": ("listStoragePools",),
    "TEMPLATE.": ("listTemplates",),
    "UPDATE.PS": ("listStoragePools",),
    "USER.": ("listUsers",),
    "VLAN.IP.RANGE.": ("listVlanIpRanges",),
    "ZONE.": ("listZones",),
}
"""Lists that events change, by how their types begin; the first that fits. VMs and volumes are read by id."""


@dataclass(frozen=True, slots=True)
class News:
    """The changes that a CloudStack's events reported since the last round.

    Attributes:
        wanted: the objects to read again, or None if everything must be read, because there were too many events.
        handled: the times of the events that these objects cover, by event id.
        newest: the time of the newest of these events by the clock of the CloudStack, or None if there are no
            events.
        is_all: whether all events are covered. If not, the later ones follow in the next round.
    """

    wanted: Wanted | None
    handled: Mapping[str, datetime]
    newest: datetime | None
    is_all: bool


def newest_event(client: Client) -> datetime:
    """Return the time of a CloudStack's newest event, or ``BEFORE_ALL`` if there are no events.

    Raises:
        CallRefused: the CloudStack rejected the call.
        NotAnswered: the CloudStack did not respond.
    """
    firsts = [next(client.pages(EVENTS, owned)) for owned in OF_EACH_OWNER]
    return max((_when(row) for rows, _ in firsts for row in rows), default=BEFORE_ALL)


def read_news(client: Client, since: datetime, handled: Container[str]) -> News:
    """Read the events since a point in time, and return the changes that they report.

    Events whose ids are in ``handled`` are skipped.

    Raises:
        CallRefused: the CloudStack rejected a call.
        NotAnswered: the CloudStack did not respond.
    """
    first = since - OVERLAP
    day = (max(since, BEFORE_ALL + ANY_ZONE) - ANY_ZONE).strftime("%Y-%m-%d")
    found: dict[str, Row] = {}
    for owned in OF_EACH_OWNER:
        for rows, _ in client.pages(EVENTS, {**owned, "startdate": day}):
            found |= {str(row["id"]): row for row in rows if _when(row) >= first}
            if len(found) > MOST_EVENTS:
                return News(None, {}, None, is_all=False)
            if any(_when(row) < first for row in rows):
                break
    return news_of([row for number, row in found.items() if number not in handled])


def news_of(events: Iterable[Row]) -> News:
    """Return the VMs, volumes and other objects that events report as changed, oldest events first.

    Later events are left for the next round of following once MOST_VMS VMs and volumes have changed. Events of
    operations that have not ended change nothing.
    """
    commands: set[str] = set()
    vms: set[str] = set()
    volumes: set[str] = set()
    handled: dict[str, datetime] = {}
    is_all = True
    for row in sorted(events, key=_when):
        if len(vms) + len(volumes) >= MOST_VMS:
            is_all = False
            break
        handled[str(row["id"])] = _when(row)
        if row.get("state") in UNDER_WAY:
            continue
        kind, uuid = row.get("resourcetype"), _uuid(row.get("resourceid"))
        if kind in OF_VMS and uuid:
            vms.add(uuid)
        elif kind in OF_VOLUMES and uuid:
            volumes.add(uuid)
        else:
            commands.update(_lists(str(row.get("type", ""))))
    wanted = Wanted(frozenset(commands), frozenset(vms), frozenset(volumes))
    return News(wanted, handled, max(handled.values(), default=None), is_all)


def _lists(event_type: str) -> tuple[str, ...]:
    if event_type.endswith(SIGNING_IN):
        return ()
    return next((commands for start, commands in LISTS.items() if event_type.startswith(start)), ())


def _uuid(given: object) -> str | None:
    """Return the text as a uuid in its usual form, or None if it is not a uuid."""
    try:
        return str(UUID(str(given)))
    except ValueError:
        return None


def _when(row: Row) -> datetime:
    return datetime.strptime(str(row["created"]), "%Y-%m-%dT%H:%M:%S%z")
