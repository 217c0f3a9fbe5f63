"""The maximum sizes that calls may request. Sums of many thousands of them fit into 64 bits."""

MOST_CORES, MOST_MHZ, MOST_MIB = 4096, 100_000, 64 * 1024 * 1024
"""Of a VM; MHz of each core."""

MOST_DISK_GIB = 1024 * 1024

MOST_DEVICE_ID = 255
"""The highest number that a deploy call may give a data disk in its VM."""
