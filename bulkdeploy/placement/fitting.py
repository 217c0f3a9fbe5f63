"""The number of equal objects that fit into free capacity."""

import numpy as np

from bulkdeploy.placement.model import Ints

ENDLESS = 1 << 31
"""Stands for room without bound; sums over a million hosts stay exact in 64 bits and in floats."""


def fit(free: Ints, size: int) -> Ints:
    """Return the number of items of ``size`` that fit into each free capacity. Negative capacity fits none."""
    return free // size if size else np.where(free >= 0, ENDLESS, 0).astype(np.int64)
