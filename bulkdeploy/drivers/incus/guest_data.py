"""The keys of an instance's configuration that cloud-init reads inside the guest."""

import base64
import json
import zlib
from collections.abc import Mapping
from uuid import UUID

from bulkdeploy.drivers.cloud_init import CLOUD_CONFIG, network_config
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.incus.options import IncusOptions

GZIP = b"\x1f\x8b"
"""The first bytes of compressed user data."""

MOST_USER_DATA_BYTES = 1 << 20
"""The size above which compressed user data is not decompressed."""


def cloud_init_keys(guest: GuestSpec, names: Mapping[UUID, str] | None, options: IncusOptions) -> dict[str, str]:
    """Return the keys of an instance's configuration that cloud-init reads.

    The result is empty if the option ``cloud_init`` is off.

    Args:
        guest: The guest.
        names: The names of its interfaces by the uuids of their NICs. None: the guest names its interfaces.
        options: The driver's options.

    Raises:
        UnicodeDecodeError: the user data is not text.
    """
    if not options.cloud_init:
        return {}
    user_data = _text_of(base64.b64decode(guest.user_data)) if guest.user_data else CLOUD_CONFIG
    vendor_data = {"hostname": guest.host_name or guest.name, "ssh_authorized_keys": list(guest.public_keys)}
    return {
        "cloud-init.user-data": user_data,
        "cloud-init.vendor-data": CLOUD_CONFIG + json.dumps(vendor_data),
        "cloud-init.network-config": json.dumps(network_config(guest.nics, names)),
    }


def _text_of(user_data: bytes) -> str:
    """Return user data as text, because Incus accepts only text.

    Compressed user data is decompressed.

    Raises:
        UnicodeDecodeError: the user data is not text.
    """
    if not user_data.startswith(GZIP):
        return user_data.decode()
    decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        decompressed = decompressor.decompress(user_data, MOST_USER_DATA_BYTES)
    except zlib.error:
        return user_data.decode()
    return (decompressed if decompressor.eof else user_data).decode()
