"""Compares what bulkdeploy sends to a CloudStack and reads of it with the annotations of a CloudStack checkout.

Run ``python -m tests.cloudstack.compare_annotations CHECKOUT VERSION`` from the root of this repository. CHECKOUT
is a source tree of CloudStack, and VERSION is its release, such as 4.20. The script prints a line for each
difference. It ends with exit code 1 if there is any.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.support.cloudstack.apis import APIS

CONSTANT = re.compile(r'String\s+(\w+)\s*=\s*"([^"]*)"')
COMMAND = re.compile(r'@APICommand\s*\(\s*name\s*=\s*(?:"(\w+)"|(\w+\.)?(\w+))')
PARAMETER = re.compile(r"@Parameter\s*\((.*?)\)\s*(?://[^\n]*)?\n\s*(?:@|/|[\w<])", re.DOTALL)
NAME = re.compile(r'name\s*=\s*(?:"([^"]+)"|([\w.]+))')
FIELD = re.compile(r'@SerializedName\s*\(\s*(?:value\s*=\s*)?(?:"([^"]+)"|([\w.]+))')
PARENT = re.compile(r"\bclass\s+(\w+)(?:<[^{]*?>)?\s+extends\s+(\w+)")
DEEPEST = 8
"""Most classes above a class."""

FIELDS: Mapping[str, str] = {
    "HostResponse": "id name state resourcestate hypervisor hypervisorversion zoneid podid clusterid ipaddress"
    " hosttags cpusockets cpunumber cpuspeed cpuwithoverprovisioning memorytotal memorywithoverprovisioning",
    "ClusterResponse": "id name zoneid podid hypervisortype clustertype allocationstate managedstate"
    " cpuovercommitratio memoryovercommitratio",
    "StoragePoolResponse": "id name zoneid podid clusterid scope state tags path type ipaddress disksizetotal"
    " hypervisor overprovisionfactor",
    "ZoneResponse": "id name networktype dns1 dns2 internaldns1 internaldns2 domain domainid localstorageenabled"
    " allocationstate securitygroupsenabled guestcidraddress type",
    "UserVmResponse": "id name displayname instancename state account domainid projectid zoneid hostid hostname"
    " hypervisor serviceofferingid serviceofferingname templateid templatename isoid cpunumber cpuspeed memory nic"
    " securitygroup affinitygroup keypairs",
    "NicResponse": "id networkid macaddress ipaddress gateway netmask isdefault deviceid",
    "VolumeResponse": "id name type state size account domainid projectid zoneid virtualmachineid vmstate storageid"
    " deviceid diskofferingid",
    "AsyncJobResponse": "jobstatus jobresult jobresultcode",
    "EventResponse": "id type state created resourceid resourcetype",
    "DiskOfferingResponse": "id name displaytext iscustomized disksize provisioningtype tags displayoffering",
    "ServiceOfferingResponse": "id name cpunumber cpuspeed memory hosttags storagetags rootdisksize iscustomized"
    " serviceofferingdetails deploymentplanner offerha limitcpuuse dynamicscalingenabled networkrate",
    "NetworkResponse": "id name displaytext zoneid networkofferingid acltype gateway netmask physicalnetworkid"
    " networkdomain cidr type vpcid traffictype vlan broadcasturi subdomainaccess",
    "VlanIpRangeResponse": "id zoneid networkid podid startip endip gateway netmask forvirtualnetwork",
    "AccountResponse": "id name domainid roleid accounttype state isdefault vmlimit cpulimit memorylimit"
    " volumelimit",
    "ProjectResponse": "id name domainid displaytext owner vmlimit cpulimit memorylimit volumelimit",
    "DomainResponse": "id name path parentdomainid vmlimit cpulimit memorylimit volumelimit",
    "CapabilitiesResponse": "cloudstackversion",
    "ConfigurationResponse": "name value",
}
"""Fields that the driver, imports and checks read, by the class of the response."""


@dataclass(frozen=True)
class Checkout:
    """The Java source of one release."""

    folder: Path

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """Return the text of each class of the API and of plug-ins to it, by the class's name."""
        roots = [self.folder / "api", self.folder / "server", self.folder / "plugins"]
        return {path.stem: path.read_text() for root in roots for path in root.rglob("src/main/**/*.java")}

    @cached_property
    def constants(self) -> Mapping[str, str]:
        """Return the values of text constants, by class and name."""
        return {
            f"{name}.{constant}": value
            for name, text in self.sources.items()
            for constant, value in CONSTANT.findall(text)
        }

    @cached_property
    def commands(self) -> Mapping[str, list[str]]:
        """Return the classes of each command, that for admins among them, by the command's name."""
        found: dict[str, list[str]] = {}
        for name, text in self.sources.items():
            command = COMMAND.search(text)
            if command is not None:
                literal, holder, constant = command.groups()
                value = literal or self.constants.get(f"{(holder or name + '.')}{constant}")
                if value is not None:
                    found.setdefault(value, []).append(name)
        return found

    def above(self, name: str) -> Iterator[str]:
        """Yield the texts of a class and of the classes above it."""
        for _ in range(DEEPEST):
            text = self.sources.get(name)
            if text is None:
                return
            yield text
            parents = dict(PARENT.findall(text))
            if name not in parents:
                return
            name = parents[name]

    def parameters(self, command: str) -> frozenset[str]:
        """Return the names of a command's parameters, in lower case."""
        names = set()
        for text in (text for name in self.commands[command] for text in self.above(name)):
            for inner in PARAMETER.findall(text):
                name = NAME.search(inner)
                if name is not None:
                    names.add(self.value(*name.groups()).lower())
        return frozenset(names)

    def fields(self, response: str) -> frozenset[str]:
        """Return the names of a response's fields."""
        return frozenset(self.value(*found) for text in self.above(response) for found in FIELD.findall(text))

    def value(self, literal: str | None, constant: str | None) -> str:
        """Return the text that an annotation gives, as a literal or as the name of a constant."""
        if literal:
            return literal
        last_two = ".".join(str(constant).split(".")[-2:])
        return self.constants.get(last_two) or self.constants.get(f"ApiConstants.{constant}") or str(constant)


def differences(checkout: Checkout, version: str) -> Iterator[str]:
    """Yield what bulkdeploy sends or reads and the checkout does not have."""
    release = _number(version)
    for command, parameters in APIS.items():
        if command not in checkout.commands:
            yield f"{command}: there is no such command"
            continue
        known = checkout.parameters(command)
        for name, (_, since) in parameters.items():
            if (since is None or _number(since) <= release) and name.lower() not in known:
                yield f"{command}: there is no parameter {name}"
    for response, fields in FIELDS.items():
        known = checkout.fields(response)
        for name in fields.split():
            if name not in known:
                yield f"{response}: there is no field {name}"


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def main() -> None:
    """Print the differences."""
    folder, version = sys.argv[1:]
    found = list(differences(Checkout(Path(folder)), version))
    sys.stdout.write("".join(f"{line}\n" for line in found) or f"No differences from {version}.\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
