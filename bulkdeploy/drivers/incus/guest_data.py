"""The keys of an instance's configuration that cloud-init reads inside the guest."""

import base64
import json
from collections.abc import Mapping
from uuid import UUID

from bulkdeploy.drivers.cloud_init import CLOUD_CONFIG, network_config
from bulkdeploy.drivers.driver import GuestSpec
from bulkdeploy.drivers.incus.options import IncusOptions


def cloud_init_keys(guest: GuestSpec, names: Mapping[UUID, str] | None, options: IncusOptions) -> dict[str, str]:
    """Return the keys of an instance that cloud-init reads; none if the option ``cloud_init`` is off.

    Args:
        guest: The guest.
        names: The names of its interfaces by the uuids of their nics; None if the guest names them.
        options: The driver's options.
    """
    if not options.cloud_init:
        return {}
    user_data = base64.b64decode(guest.user_data).decode() if guest.user_data else CLOUD_CONFIG
    vendor_data = {"hostname": guest.host_name or guest.name, "ssh_authorized_keys": list(guest.public_keys)}
    return {
        "cloud-init.user-data": user_data,
        "cloud-init.vendor-data": CLOUD_CONFIG + json.dumps(vendor_data),
        "cloud-init.network-config": json.dumps(network_config(guest.nics, names)),
    }
