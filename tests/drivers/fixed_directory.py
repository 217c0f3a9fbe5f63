"""A directory of drivers where no zone is set up."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.records import Pool, TemplateImage


class FixedDirectory:
    """Some hosts, one pool and some templates; the hosts are one cluster."""

    hardware: frozenset[str | None] = frozenset({None})

    def __init__(self, hosts: Sequence[HostAddress], pool: Pool, *templates: TemplateImage) -> None:
        self._hosts, self._pool, self._templates = tuple(hosts), pool, {one.uuid: one for one in templates}
        self.closed: set[UUID] = set()

    def hosts(self) -> Sequence[HostAddress]:
        """See Directory."""
        return self._hosts

    def closed_hosts(self) -> Sequence[HostAddress]:
        """See Directory: those whose uuids are in ``closed``."""
        return [host for host in self._hosts if host.uuid in self.closed]

    def hosts_of_pool(self, pool_uuid: UUID) -> Sequence[HostAddress]:
        """See Directory."""
        del pool_uuid
        return self._hosts

    def pools(self) -> Sequence[Pool]:
        """See Directory."""
        return [self._pool]

    def pools_of_host(self, host_uuid: UUID) -> Sequence[Pool]:
        """See Directory."""
        del host_uuid
        return [self._pool]

    def pools_of_volumes(self, volume_uuids: Collection[UUID]) -> Sequence[Pool]:
        """See Directory."""
        del volume_uuids
        return [self._pool]

    def hardware_of_cluster(self, host_uuid: UUID) -> frozenset[str | None]:
        """See Directory."""
        del host_uuid
        return self.hardware

    def caller(self, user_id: int) -> Mapping[str, str]:
        """See Directory: nobody is known."""
        del user_id
        return {}

    def template(self, template_uuid: UUID) -> TemplateImage | None:
        """See Directory."""
        return self._templates.get(template_uuid)


def shared_pool(uuid: UUID) -> Pool:
    """A pool that all hosts see, of which a driver knows no more."""
    return Pool(uuid, "shared", "SharedMountPoint", None, None, None)
