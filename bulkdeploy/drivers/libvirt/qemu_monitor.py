"""Requests to the QEMU process of a running guest through libvirt's monitor, and to the agent in the guest.

libvirt executes the changes of one guest one after the other, so a request waits for the previous change.
"""

import json
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.libvirt.errors import libvirt, libvirt_qemu

PING_S = 1
"""The time within which the agent of a guest must answer a ping, in seconds."""

LONGEST_PING_S = 2 * PING_S
"""The longest duration of ``ping_agent`` in seconds. libvirt synchronizes with the agent before the ping."""


def request_qemu(domain: Any, command: str, **arguments: Any) -> Any:
    """Run a command of QEMU's monitor protocol (QMP), and return its result.

    Raises:
        libvirt.libvirtError: the command failed.
    """
    request = json.dumps({"execute": command, "arguments": arguments} if arguments else {"execute": command})
    answer = json.loads(libvirt_qemu.qemuMonitorCommand(domain, request, 0))
    if "error" in answer:
        raise libvirt.libvirtError(f"{command}: {answer['error'].get('desc')}")
    return answer["return"]


def has_open(domain: Any, volume_uuid: UUID) -> bool:
    """Return whether QEMU has the file or image of a volume open, even if no device of the guest uses it yet."""
    nodes = request_qemu(domain, "query-named-block-nodes", flat=True)
    return any(str(volume_uuid) in node["file"] for node in nodes)


def ping_agent(domain: Any) -> bool:
    """Return whether the agent in a guest answers within PING_S seconds.

    Errors count as False.

    The time limit of the synchronization with the agent is set separately, because libvirt's default is 5 seconds.
    """
    try:
        domain.agentSetResponseTimeout(PING_S, 0)
        libvirt_qemu.qemuAgentCommand(domain, '{"execute": "guest-ping"}', PING_S, 0)
    except libvirt.libvirtError:
        return False
    return True
