"""An Incus cluster with its client, its pools and its images, as the calls of all guests use it."""

import re
from threading import BoundedSemaphore
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.incus.options import IncusOptions
from bulkdeploy.drivers.incus.rest import Incus
from bulkdeploy.drivers.records import Pool, Records, TemplateImage

FINGERPRINT = re.compile(r"[0-9a-f]{12,64}")


class IncusCluster:
    """An Incus cluster with its client.

    Threads share the object.

    Attributes:
        records: the records of the driver, which sets them before the first call.
        slots: a semaphore that limits the number of operations that run at the same time.
        is_clustered: whether the server is a cluster, or None before the first request has shown this.
    """

    records: Records

    def __init__(self, options: IncusOptions, incus: Incus) -> None:
        self.options, self.incus = options, incus
        self.slots = BoundedSemaphore(options.calls_at_once)
        self.is_clustered: bool | None = None
        self._pools: dict[UUID, Pool] = {}

    def pool(self, pool_uuid: UUID) -> str:
        """Return Incus's name of a pool of the service.

        Raises:
            DriverError: no host can access the pool.
        """
        if pool_uuid not in self._pools:
            self._pools = {pool.uuid: pool for pool in self.records.directory.pools()}
        if pool_uuid not in self._pools:
            raise DriverError("volume", ANY_HOST, f"no host can access pool {pool_uuid}", transient=False)
        return self.name_of(self._pools[pool_uuid])

    def name_of(self, pool: Pool) -> str:
        """Return Incus's name of a pool: the name in the options, or else the pool's own name."""
        named = self.options.storage_pools.get(pool.name)
        if named is None and pool.host_uuid is not None:
            named = self.options.local_pool
        return named or pool.name

    def source_of(self, guest: GuestSpec) -> dict[str, Any]:
        """Return the source of an instance's root disk in the format of Incus.

        Raises:
            DriverError: the template does not exist.
        """
        template = guest.volumes[0].template_uuid if guest.volumes else None
        if template is None:
            return {"type": "none"}
        image = self.records.directory.template(template)
        if image is None:
            raise DriverError("volume", ANY_HOST, f"there is no template {template}", transient=False)
        named = image.named_in(self.options.images)
        alias = named or image_alias(image)
        is_fingerprint = named is not None and FINGERPRINT.fullmatch(alias) is not None
        return {"type": "image", ("fingerprint" if is_fingerprint else "alias"): alias}


def image_alias(image: TemplateImage) -> str:
    """Return the alias under which the driver imports an image into Incus."""
    return f"bulkdeploy-{image.key}"
