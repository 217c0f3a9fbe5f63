"""What a strategy is: it decides how many VMs of a batch each cluster gets."""

from dataclasses import dataclass
from typing import Protocol

from bulkdeploy.placement.model import Floats, Ints


@dataclass(frozen=True, slots=True)
class OpenClusters:
    """The clusters with room for at least one VM, in order of their ids, and their pods.

    ``pod`` is the position of a cluster's pod in the ``pod_*`` columns, which count all clusters of the
    pod, open or not, in order of pod ids. ``room``: free slots (see ``rooms.Rooms``). ``cpu_share``:
    share of the CPU in use.
    """

    id: Ints
    owner_vms: Ints
    all_vms: Ints
    room: Ints
    cpu_share: Floats
    pod: Ints
    pod_owner_vms: Ints
    pod_all_vms: Ints
    pod_cpu_share: Floats


class Filling(Protocol):
    """How a strategy goes on from any point of a batch."""

    def __call__(self, taken: Ints, room: Ints, count: int) -> Ints:
        """How many of the next ``count`` VMs each open cluster gets: as many as fit, within its room.

        ``taken`` VMs were given to each cluster already, and ``room`` more fit in each. Asking for a
        and then for b more gives what asking for a + b gives.
        """
