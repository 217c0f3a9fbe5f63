"""The conversion of a CloudStack's VMs and volumes to the objects that an import writes."""

from collections.abc import Mapping
from uuid import UUID

from bulkdeploy.cloudstack.client import Row
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.manage.upstream.reading import Rows
from bulkdeploy.manage.upstream.sections import hypervisor_of
from bulkdeploy.services.virtual_machines.learnt_vms import (
    LearntMachines,
    LearntNic,
    LearntOwner,
    LearntVm,
    LearntVolume,
)

NOT_HERE = frozenset({"Error", "Expunging", "Expunged"})
"""States of VMs that hold nothing, or are about to; of volumes there are more."""

NO_VOLUME = NOT_HERE | {"Destroy", "Destroyed"}

STOPPED = frozenset({"Stopped", "Shutdown", "Shutdowned"})
NO_TEMPLATE = "00000000-0000-0000-0000-000000000000"


def virtual_machines_of(rows: Rows) -> tuple[LearntMachines, list[str]]:
    """Return all VMs and volumes, and a text for each one that was left out, with the reason."""
    left_out: list[str] = []
    vms: list[LearntVm] = []
    for row in rows["listVirtualMachines"]:
        if row.get("state") in NOT_HERE:
            left_out.append(f"virtualmachines {row.get('name')} ({row['id']}): its state is {row['state']}")
            continue
        try:
            vms.append(_vm(row))
        except (KeyError, ValueError) as error:
            left_out.append(f"virtualmachines {row.get('name')} ({row.get('id')}): cannot be read: {error!r}")
    there = {vm.uuid for vm in vms}
    volumes: list[LearntVolume] = []
    for row in rows["listVolumes"]:
        if row.get("state") in NO_VOLUME:
            continue
        try:
            volume = _volume(row)
        except (KeyError, ValueError) as error:
            left_out.append(f"volumes {row.get('name')} ({row.get('id')}): cannot be read: {error!r}")
            continue
        if volume.vm is None or volume.vm in there:
            volumes.append(volume)
    return LearntMachines(vms, volumes), left_out


def _vm(row: Row) -> LearntVm:
    vm = UUID(str(row["id"]))
    return LearntVm(
        uuid=vm,
        name=str(row["name"]),
        display_name=str(row.get("displayname") or row["name"]),
        instance_name=str(row.get("instancename") or row["name"]),
        owner=_owner(row),
        zone=str(row["zoneid"]),
        host=str(UUID(str(row["hostid"]))) if row.get("hostid") else None,
        hypervisor=hypervisor_of(row),
        offering=str(row["serviceofferingid"]),
        offering_name=str(row.get("serviceofferingname") or row["serviceofferingid"]),
        template=str(row.get("templateid") or row.get("isoid") or NO_TEMPLATE),
        template_name=str(row.get("templatename") or row.get("isoname") or "none"),
        cpu_number=int(row["cpunumber"]),
        cpu_mhz=int(row["cpuspeed"]),
        memory_mib=int(row["memory"]),
        state=_state(row),
        security_groups=tuple(str(one["id"]) for one in row.get("securitygroup") or ()),
        affinity_groups=tuple(str(one["id"]) for one in row.get("affinitygroup") or ()),
        nics=tuple(_nic(vm, at, one) for at, one in enumerate(row.get("nic") or ())),
    )


def place_of(row: Row) -> tuple[VmState, UUID | None]:
    """Return the state of a VM, and the uuid of its host or None if the VM does not run."""
    state = _state(row)
    return state, UUID(str(row["hostid"])) if state == VmState.RUNNING else None


def _state(row: Row) -> VmState:
    """Return the state of a VM. A VM between two states is Running if it is on a host, else Stopped."""
    if row["state"] == VmState.DESTROYED:
        return VmState.DESTROYED
    return VmState.RUNNING if row["state"] not in STOPPED and row.get("hostid") else VmState.STOPPED


def _nic(vm: UUID, at: int, row: Mapping[str, object]) -> LearntNic:
    given = {name: str(row[name]) if row.get(name) else None for name in ("ipaddress", "gateway", "netmask")}
    return LearntNic(
        uuid=UUID(str(row["id"])),
        vm=vm,
        network=str(row["networkid"]),
        ip=given["ipaddress"],
        mac=str(row["macaddress"]).lower(),
        gateway=given["gateway"],
        netmask=given["netmask"],
        device=int(str(row.get("deviceid", at))),
        is_default=row.get("isdefault") in (True, "true"),
    )


def _volume(row: Row) -> LearntVolume:
    return LearntVolume(
        uuid=UUID(str(row["id"])),
        name=str(row["name"]),
        owner=_owner(row),
        zone=str(row["zoneid"]),
        vm=UUID(str(row["virtualmachineid"])) if row.get("virtualmachineid") else None,
        pool=str(row["storageid"]) if row.get("storageid") else None,
        kind=str(row["type"]),
        device=int(row["deviceid"]) if row.get("deviceid") is not None else None,
        size_bytes=int(row["size"]),
        disk_offering=str(row["diskofferingid"]) if row.get("diskofferingid") else None,
    )


def _owner(row: Row) -> LearntOwner:
    project = str(row["projectid"]) if row.get("projectid") else None
    return LearntOwner(project, str(row["domainid"]), str(row.get("account") or ""))
