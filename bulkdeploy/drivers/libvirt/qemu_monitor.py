"""Requests to the QEMU process of a running guest, through libvirt's monitor.

libvirt carries out one change of a guest after the other, and a request waits for the change before it.
"""

import json
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.libvirt.errors import libvirt, libvirt_qemu


def request_qemu(domain: Any, command: str, **arguments: Any) -> Any:
    """Run a command of QEMU's own protocol and return its result."""
    request = json.dumps({"execute": command, "arguments": arguments} if arguments else {"execute": command})
    answer = json.loads(libvirt_qemu.qemuMonitorCommand(domain, request, 0))
    if "error" in answer:
        raise libvirt.libvirtError(f"{command}: {answer['error'].get('desc')}")
    return answer["return"]


def has_open(domain: Any, volume_uuid: UUID) -> bool:
    """Return whether QEMU has the file or image of a volume open, even if no device of the guest uses it yet."""
    nodes = request_qemu(domain, "query-named-block-nodes", flat=True)
    return any(str(volume_uuid) in node["file"] for node in nodes)
