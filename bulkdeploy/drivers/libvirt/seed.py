"""The data for a guest's first boot: a NoCloud seed for cloud-init, as an ISO image that is built in memory.

Source: cloud-init's manual, "NoCloud". The image has the label cidata and the files meta-data, user-data,
vendor-data and network-config. They are written as JSON, which is valid YAML. An empty image for given file sizes
is built once, which takes 2 ms, and is then filled, because the seeds of a deployment differ only in content.
"""

import base64
import json
from functools import lru_cache
from io import BytesIO
from typing import Any

from pycdlib import PyCdlib

from bulkdeploy.drivers.cloud_init import CLOUD_CONFIG, network_config
from bulkdeploy.drivers.guests import GuestSpec

FILES = ("meta-data", "user-data", "vendor-data", "network-config")
BLOCK = 2048
"""The size of a block of an ISO image in bytes (ECMA-119)."""

ROUNDED_TO = 512
"""Generated files are padded with newlines to a multiple of this number of bytes, so that few layouts exist."""


def make_seed(guest: GuestSpec) -> bytes:
    """Return the cloud-init seed image of a guest.

    The image contains the user data unchanged. Metadata, vendor data and the network configuration are generated
    from the specification of the guest.
    """
    contents = (
        _rounded(json.dumps(_meta_data(guest))),
        base64.b64decode(guest.user_data) if guest.user_data else CLOUD_CONFIG.encode(),
        _rounded(CLOUD_CONFIG + json.dumps(_vendor_data(guest))),
        _rounded(json.dumps(network_config(guest.nics))),
    )
    empty, offsets = _layout(tuple(map(len, contents)))
    filled = bytearray(empty)
    for offset, content in zip(offsets, contents, strict=True):
        filled[offset : offset + len(content)] = content
    return bytes(filled)


def _rounded(text: str) -> bytes:
    content = text.encode()
    return content + b"\n" * (-len(content) % ROUNDED_TO)


@lru_cache(maxsize=64)
def _layout(sizes: tuple[int, ...]) -> tuple[bytes, tuple[int, ...]]:
    """Return an image with FILES of these sizes that contain zeros, and the byte offset of each file."""
    iso = PyCdlib()
    iso.new(vol_ident="cidata", joliet=3, rock_ridge="1.09")
    for number, (name, size) in enumerate(zip(FILES, sizes, strict=True)):
        iso.add_fp(BytesIO(bytes(size)), size, f"/FILE{number}.;1", rr_name=name, joliet_path=f"/{name}")
    written = BytesIO()
    iso.write_fp(written)
    places = [iso.get_record(rr_path=f"/{name}").extent_location() * BLOCK for name in FILES]
    iso.close()
    return written.getvalue(), tuple(places)


def _meta_data(guest: GuestSpec) -> dict[str, Any]:
    return {
        **guest.user_data_details,
        "instance-id": str(guest.uuid),
        "local-hostname": guest.host_name or guest.name,
        "public-keys": list(guest.public_keys),
    }


def _vendor_data(guest: GuestSpec) -> dict[str, Any]:
    if guest.password is None:
        return {}
    return {"password": guest.password, "chpasswd": {"expire": False}, "ssh_pwauth": True}
