"""How many alike things go into free room."""

import numpy as np

from bulkdeploy.placement.model import Ints

ENDLESS = 1 << 31
"""Stands for room without bound; sums over a million hosts stay exact in 64 bits and in floats."""


def fit(free: Ints, size: int) -> Ints:
    """How many things of ``size`` go into each free room: 0 to ``ENDLESS``."""
    if size == 0:
        return np.where(free >= 0, ENDLESS, 0).astype(np.int64)
    return np.minimum(np.maximum(free // size, 0), ENDLESS)  # np.clip takes thrice as long for few
