"""Compares what bulkdeploy sends to a CloudStack and reads of it with the annotations of a CloudStack checkout.

Run ``python -m tests.cloudstack.compare_annotations CHECKOUT VERSION`` from the root of this repository. CHECKOUT
is a source tree of CloudStack, and VERSION is its release, such as 4.20. The script prints a line for each
difference. It ends with exit code 1 if there is any.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.compatibility.annotations import OF_EVERY_COMMAND, Checkout
from tests.support.cloudstack.apis import APIS

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


def differences(checkout: Checkout, version: str) -> Iterator[str]:
    """Yield what bulkdeploy sends or reads and the checkout does not have."""
    release = _number(version)
    for command, parameters in APIS.items():
        if command not in checkout.classes:
            yield f"{command}: there is no such command"
            continue
        known = OF_EVERY_COMMAND.union(checkout.parameters(command))
        for name, (_, since) in parameters.items():
            if (since is None or _number(since) <= release) and name.lower() not in known:
                yield f"{command}: there is no parameter {name}"
    for response, fields in FIELDS.items():
        answered = checkout.fields(response)
        for name in fields.split():
            if name not in answered:
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
