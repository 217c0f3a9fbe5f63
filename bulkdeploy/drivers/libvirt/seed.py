"""What a guest is told at its first boot: a NoCloud seed for cloud-init, an ISO image made in memory.

cloud-init's manual, "NoCloud": a disk labelled cidata with meta-data, user-data, vendor-data and network-config.
JSON is YAML, so it is written as JSON.
"""

import base64
import json
from io import BytesIO
from typing import Any

from pycdlib import PyCdlib

from bulkdeploy.drivers.cloud_init import CLOUD_CONFIG, network_config
from bulkdeploy.drivers.driver import GuestSpec


def make_seed(guest: GuestSpec) -> bytes:
    """The seed of a guest: user data as it is, all else as the VM's rows have it."""
    files = {
        "meta-data": json.dumps(_meta_data(guest)).encode(),
        "user-data": base64.b64decode(guest.user_data) if guest.user_data else CLOUD_CONFIG.encode(),
        "vendor-data": (CLOUD_CONFIG + json.dumps(_vendor_data(guest))).encode(),
        "network-config": json.dumps(network_config(guest.nics)).encode(),
    }
    iso = PyCdlib()
    iso.new(vol_ident="cidata", joliet=3, rock_ridge="1.09")
    for number, (name, content) in enumerate(files.items()):
        iso.add_fp(BytesIO(content), len(content), f"/FILE{number}.;1", rr_name=name, joliet_path=f"/{name}")
    written = BytesIO()
    iso.write_fp(written)
    iso.close()
    return written.getvalue()


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
