"""Tags of hosts and pools. A host or pool must have all tags that the request names."""

import numpy as np

from bulkdeploy.placement.model import Flags


def carriers(tag_sets: tuple[frozenset[str], ...], tags: frozenset[str]) -> Flags:
    """Return which tag sets contain all of ``tags``, as one flag per tag set."""
    return np.fromiter((tags <= tag_set for tag_set in tag_sets), bool, len(tag_sets))
