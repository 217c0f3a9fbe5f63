"""The payload for executables of CloudStack's Extension protocol, which describes guests and hosts.

Source: adminguide/extensions of CloudStack 4.21, and of 4.22 for consoles; what its own extensions for Proxmox VE,
Hyper-V and MaaS read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.hosts import HostModel
from bulkdeploy.telemetry.request_id import current_request
from bulkdeploy.telemetry.tracing import current_traceparent

SCHEME = "extension"
SIZES, ADDRESS = ("cores", "mhz", "memory"), "address"
FORM = f"{SCHEME}://NAME?cores=N&mhz=N&memory=MIB"
EXTERNAL = "External:"
VNC, PAGES = "vnc", ("direct", "link", "url")
MOST_PORTS = 1 << 16
ON, OFF, UNKNOWN = "poweron", "poweroff", "unknown"


def read_host_url(url: str) -> HostModel:
    """Return the hardware of a host from its url.

    Raises:
        ValueError: the url does not have the form ``extension://NAME?cores=N&mhz=N&memory=MIB``.
    """
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    if parts.scheme != SCHEME or not parts.hostname:
        raise ValueError(f"invalid url {url!r}: it must be {FORM}")
    for key in SIZES:
        if not given.get(key, "").isdecimal() or not int(given[key]):
            raise ValueError(f"invalid {key} {given.get(key, '')!r} in the url: it must be {FORM}")
    cores, mhz, memory = (int(given[key]) for key in SIZES)
    return HostModel(parts.hostname, given.get(ADDRESS, "127.0.0.1"), 1, cores, mhz, memory, local_disk_bytes=0)


def host_details(url: str | None) -> dict[str, str]:
    """Return the parameters of a host's url that are sent as externaldetails.host.

    The sizes and the address are omitted. The result is empty for urls with another scheme.
    """
    parts = urlsplit(url or "")
    given = parse_qsl(parts.query, keep_blank_values=True) if parts.scheme == SCHEME else []
    return {key: value for key, value in given if key not in (*SIZES, ADDRESS)}


def payload_of(
    extension: Mapping[str, str],
    host: Mapping[str, str],
    virtual_machine: Mapping[str, str] | None = None,
    vm: Mapping[str, Any] | None = None,
    caller: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the payload of an action.

    It contains the details of the extension, the host and the guest, and the guest as ``vm_of`` describes it.
    ``caller`` is the account of the user for whom the action runs, and its role; it is omitted without a user.
    ``requestid`` and ``traceparent``, which this service adds, are the id of the API call and the trace span to
    which the action belongs, for the logs and traces of programs.
    """
    external: dict[str, Any] = {"extension": extension, "host": host, "resourcemap": {}}
    origin = {"requestid": current_request(), "traceparent": current_traceparent()}
    request: dict[str, Any] = {name: value for name, value in origin.items() if value is not None}
    if caller:
        request["caller"] = caller
    if vm is None:
        return {**request, "externaldetails": external}
    return {
        **request,
        "externaldetails": {**external, "virtualmachine": virtual_machine or {}},
        "virtualmachineid": vm["uuid"],
        "virtualmachinename": vm["name"],
        "cloudstack.vm.details": vm,
    }


def power_of_word(word: object) -> str:
    """Return ON, OFF or UNKNOWN for a power state that an executable printed in any case."""
    text = str(word).strip().lower()
    return text if text in (ON, OFF) else UNKNOWN


def vm_of(guest: GuestSpec) -> dict[str, Any]:
    """Return a guest in the protocol's format ``cloudstack.vm.details``.

    Memory is in bytes, NICs are in order, and user data is in base64. ``id`` is the number in the guest's name, as
    in CloudStack. As in CloudStack's payloads, unknown values are omitted: no value is null.
    """
    number = re.fullmatch(r"i-\d+-(\d+)-.*", guest.name)
    memory_bytes = guest.memory_mib << 20
    return {
        **({"id": int(number[1])} if number else {}),
        "uuid": str(guest.uuid),
        "name": guest.name,
        "hostName": guest.host_name or guest.name,
        "cpus": guest.cpu_number,
        "minSpeed": guest.cpu_mhz,
        "maxSpeed": guest.cpu_mhz,
        "minRam": memory_bytes,
        "maxRam": memory_bytes,
        "details": {},
        **_known({"userData": guest.user_data}),
        "nics": [
            _known(
                {
                    "deviceId": number,
                    "uuid": str(nic.uuid),
                    "mac": nic.mac_address,
                    "ip": nic.ip_address,
                    "netmask": nic.netmask,
                    "gateway": nic.gateway,
                    "dns1": nic.dns[0] if nic.dns else None,
                    "defaultNic": nic.is_default,
                    "broadcastType": "Vlan" if nic.vlan else "Native",
                    "broadcastUri": f"vlan://{nic.vlan}" if nic.vlan else None,
                }
            )
            for number, nic in enumerate(guest.nics)
        ],
    }


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def merged(vm: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``vm`` with the output of ``prepare`` applied as a JSON merge patch (RFC 7396), as CloudStack does."""
    result = dict(vm)
    for key, value in patch.items():
        before = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            result[key] = value
    return result


class WrongAnswer(Exception):
    """Raised if the response of an action does not follow the protocol."""


def prepared(vm: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Apply the response of ``prepare`` to a guest as a JSON merge patch, and return the result.

    Raises:
        WrongAnswer: the result has no name, or its details are not an object.
    """
    result = merged(vm, answer)
    if not isinstance(result.get("name"), str) or not result["name"]:
        raise WrongAnswer(
            f"name must be a text, not {result.get('name')!r}, because the guest is found by its name"
        )
    if not isinstance(result.get("details"), Mapping):
        raise WrongAnswer(f"details must be an object, not {result.get('details')!r}")
    return result


@dataclass(frozen=True, slots=True)
class Screen:
    """The address and port of a VNC server, and its password."""

    address: str
    port: int
    password: str


def read_console(answer: Mapping[str, Any]) -> Screen | str:
    """Return the VNC server in a response of ``getconsole``, or the url of its web page as a text.

    Raises:
        WrongAnswer: the response contains neither.
    """
    console = answer.get("console")
    if not isinstance(console, Mapping):
        raise WrongAnswer(f"console must be an object, not {console!r}")
    protocol = str(console.get("protocol", VNC)).lower()
    if protocol in PAGES and console.get("url"):
        return str(console["url"])
    if protocol != VNC:
        raise WrongAnswer(
            f"console.protocol must be {VNC}, or one of {', '.join(PAGES)} with a url, not {protocol!r}"
        )
    address, port = str(console.get("host") or ""), str(console.get("port") or "")
    if not address or not port.isdecimal() or not 0 < int(port) < MOST_PORTS:
        raise WrongAnswer(f"console must have host and port, not {address!r} and {port!r}")
    password = str(console.get("password") or "")
    if not password.isascii():
        raise WrongAnswer("console.password must be ASCII, because VNC supports no other characters")
    return Screen(address, int(port), password)


def without_prefix(details: object) -> dict[str, str]:
    """Return the details whose keys start with ``External:``, without this prefix, as CloudStack sends them.

    The result is empty if ``details`` is not a mapping.
    """
    if not isinstance(details, Mapping):
        return {}
    return {key.removeprefix(EXTERNAL): str(value) for key, value in details.items() if key.startswith(EXTERNAL)}
