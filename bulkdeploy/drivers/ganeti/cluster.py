"""A Ganeti cluster with its clients, as the calls of all guests use it."""

from threading import BoundedSemaphore

from bulkdeploy.drivers.ganeti.instances import TAG
from bulkdeploy.drivers.ganeti.mirrors import Mirrors
from bulkdeploy.drivers.ganeti.nodes import Nodes
from bulkdeploy.drivers.ganeti.options import GanetiOptions
from bulkdeploy.drivers.ganeti.rapi import Rapi
from bulkdeploy.drivers.records import Records


class GanetiCluster:
    """A Ganeti cluster with its clients.

    Threads share the object.

    Attributes:
        records: the records of the driver, which sets them before the first call.
        slots: a semaphore that limits the number of jobs that Ganeti runs for the driver at the same time.
    """

    records: Records

    def __init__(self, options: GanetiOptions, rapi: Rapi) -> None:
        self.options, self.rapi = options, rapi
        self.slots = BoundedSemaphore(options.jobs_at_once)
        self.mirrors = Mirrors(rapi, options, lambda: self.records)
        self.nodes = Nodes(rapi, options.reserved_memory_mib, our_tag=f"{TAG}uuid:")
