"""Units and the only conversions between them: GiB and MiB to bytes."""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def gib_to_bytes(gib: int) -> int:
    """Convert GiB to bytes."""
    return gib * GIB


def bytes_to_whole_gib(size_bytes: int) -> int:
    """Convert bytes to GiB, rounded down, as CloudStack prints storage limits."""
    return size_bytes // GIB


def mib_to_bytes(mib: int) -> int:
    """Convert MiB to bytes."""
    return mib * MIB
