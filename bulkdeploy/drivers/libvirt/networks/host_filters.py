"""The network filters of guests on their hosts.

A filter can be redefined under the same name and uuid while its guest runs: the daemon then updates the rules of
all NICs of the guest. A migrating guest takes its definition along, so its filter must exist on the destination
before.
"""

from typing import Any
from uuid import UUID

from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.errors import is_code, libvirt
from bulkdeploy.drivers.libvirt.networks.filters import filter_name


def define_filter(call: HostCall, xml: str) -> None:
    """Define a network filter on the host, replacing any filter with the same name."""
    call.go_on("filter")
    call.connection.nwfilterDefineXML(xml)


def find_filter(call: HostCall, guest_uuid: UUID) -> Any | None:
    """Return the network filter of a guest, or None if the host does not have such a filter."""
    try:
        return call.connection.nwfilterLookupByName(filter_name(guest_uuid))
    except libvirt.libvirtError as error:
        if not is_code(error, libvirt.VIR_ERR_NO_NWFILTER):
            raise
        return None


def remove_filter(call: HostCall, guest_uuid: UUID) -> None:
    """Delete the network filter of a guest that is no longer on the host. A missing filter is no error."""
    found = find_filter(call, guest_uuid)
    if found is not None:
        try:
            found.undefine()
        except libvirt.libvirtError as error:
            if not is_code(error, libvirt.VIR_ERR_NO_NWFILTER):
                raise
