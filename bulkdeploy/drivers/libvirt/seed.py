"""The data for a guest's first boot: a NoCloud seed for cloud-init, as an ISO image built in memory.

cloud-init's manual, "NoCloud": a disk labelled cidata with meta-data, user-data, vendor-data and network-config.
JSON is YAML, so it is written as JSON.

An image is laid out once for files of the same sizes, which takes 2 ms, and then only filled: seeds of a deployment
differ in what is in their files.
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
"""Bytes of a block of an ISO image (ECMA-119)."""

ROUNDED_TO = 512
"""Files of ours are filled up with empty lines to a multiple of so many bytes: few layouts then serve all."""


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
    """Return an image with FILES of these sizes, full of zeros; at which byte each begins."""
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
