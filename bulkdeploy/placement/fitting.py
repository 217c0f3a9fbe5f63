"""The number of equal objects that fit into free capacity."""

import numpy as np

from bulkdeploy.placement.model import Ints

ENDLESS = 1 << 31
"""Stands for room without bound; sums over a million hosts stay exact in 64 bits and in floats."""


def fit(free: Ints, size: int) -> Ints:
    """Return how many things of ``size`` go into each free room; none where it is less than 1."""
    return free // size if size else np.where(free >= 0, ENDLESS, 0).astype(np.int64)
