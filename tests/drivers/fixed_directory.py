"""A directory of drivers where no zone is set up."""

from collections.abc import Collection, Sequence
from uuid import UUID

from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.records import Pool, TemplateImage


class FixedDirectory:
    """Some hosts, one pool and at most one template."""

    def __init__(self, hosts: Sequence[HostAddress], pool: Pool, template: TemplateImage | None = None) -> None:
        self._hosts, self._pool, self._template = tuple(hosts), pool, template

    def hosts(self) -> Sequence[HostAddress]:
        """See Directory."""
        return self._hosts

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

    def template(self, template_uuid: UUID) -> TemplateImage | None:
        """See Directory."""
        found = self._template
        return found if found is not None and found.uuid == template_uuid else None


def shared_pool(uuid: UUID) -> Pool:
    """A pool that all hosts see, of which a driver knows no more."""
    return Pool(uuid, "shared", "SharedMountPoint", None, None, None)
