"""What a guest is told at its first boot: a NoCloud seed for cloud-init, an ISO image made in memory.

cloud-init's manual, "NoCloud": a disk labelled cidata with meta-data, user-data, vendor-data and network-config.
JSON is YAML, so it is written as JSON.
"""

import base64
import ipaddress
import json
from io import BytesIO
from typing import Any

from pycdlib import PyCdlib

from bulkdeploy.drivers.driver import GuestSpec, NicSpec

CLOUD_CONFIG = "#cloud-config\n"


def make_seed(guest: GuestSpec) -> bytes:
    """The seed of a guest: user data as it is, all else as the VM's rows have it."""
    files = {
        "meta-data": json.dumps(_meta_data(guest)).encode(),
        "user-data": base64.b64decode(guest.user_data) if guest.user_data else CLOUD_CONFIG.encode(),
        "vendor-data": (CLOUD_CONFIG + json.dumps(_vendor_data(guest))).encode(),
        "network-config": json.dumps(_network_config(guest.nics)).encode(),
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


def _network_config(nics: tuple[NicSpec, ...]) -> dict[str, Any]:
    return {"version": 2, "ethernets": {f"nic{number}": _ethernet(nic) for number, nic in enumerate(nics)}}


def _ethernet(nic: NicSpec) -> dict[str, Any]:
    """One nic, known by its MAC address; without an address of ours it asks for one."""
    found: dict[str, Any] = {"match": {"macaddress": nic.mac_address.lower()}}
    if nic.mtu is not None:
        found["mtu"] = nic.mtu
    if nic.ip_address is None or nic.netmask is None:
        return {**found, "dhcp4": True}
    found["addresses"] = [str(ipaddress.ip_interface(f"{nic.ip_address}/{nic.netmask}"))]
    if nic.is_default and nic.gateway is not None:
        found["routes"] = [{"to": "default", "via": nic.gateway}]
    if nic.dns:
        found["nameservers"] = {"addresses": list(nic.dns)}
    return found
