"""For each filter of each list command: a value, and which rows of the whole list it should leave."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.zones.world import World

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """``keeps`` says of a row of the whole list whether it stays; ``tells_apart`` False: it keeps all or none."""

    value: str
    keeps: Callable[[Row], bool]
    tells_apart: bool = True


Cases = dict[str, Case]


def equal(field: str, value: str, shown: object = None) -> Case:
    """The rows in which ``field`` is the value, or what it is ``shown`` as."""
    wanted = value if shown is None else shown
    return Case(value, lambda row: row.get(field) == wanted)


def word(part: str, *fields: str) -> Case:
    """The rows in which the part stands somewhere in one of the fields."""
    return Case(part, lambda row: any(part.lower() in str(row.get(name, "")).lower() for name in fields))


def inside(items: str, field: str, value: str, shown: str | None = None) -> Case:
    """The rows whose list ``items`` has an object in which ``field`` is the value, or what it is ``shown`` as."""
    return Case(value, lambda row: any(item.get(field) == (shown or value) for item in row.get(items, ())))


def constant(value: str, *, keeps: bool) -> Case:
    """A filter by something that is the same in all rows."""
    return Case(value, lambda _: keeps, tells_apart=False)


def of_name(row_name: str, value: str, field: str = "name") -> Case:
    """The one row of this name, found by another value."""
    return Case(value, lambda row: row.get(field) == row_name)


def categories_of_images(world: World, zone: str = "", arch: str = "", *, isos: bool = False) -> set[str]:
    """Return the OS categories of which there is an ISO, or any image in a zone or for an architecture."""
    types = {row["id"]: row["oscategoryid"] for row in world.rows("listOsTypes")}
    images = world.rows("listIsos", isofilter="all", listall="true")
    if not isos:
        images += world.rows("listTemplates", templatefilter="all", listall="true")
    return {
        types[row["ostypeid"]]
        for row in images
        if "ostypeid" in row and zone in ("", row.get("zoneid")) and arch in ("", row["arch"])
    }


def services(row: Row) -> set[str]:
    """The names of the services that a network, or one of an offering, has."""
    return {service["name"] for service in row.get("service", ())}


def instead_of(world: World, network: str) -> Case:
    """The network offerings that this network could have instead of its own."""
    (row,) = world.rows("listNetworks", id=network)
    return Case(
        network,
        lambda one: (
            one["id"] != row["networkofferingid"]
            and (one["guestiptype"], one["state"]) == (row["type"], "Enabled")
            and services(one) >= services(row)
        ),
        tells_apart=False,
    )


def infrastructure(world: World) -> dict[str, Cases]:
    """Zones, pods, clusters, hosts, pools, capacity."""
    zone, pod = world.id_of("zones", "small"), world.id_of("pods", "pod-a")
    cluster, host = world.id_of("clusters", "a-1"), world.id_of("hosts", "a-1-1")
    pool = world.id_of("storage_pools", "a-1-primary")
    rivals = world.id_of("domains", "rivals")
    return {
        "listZones": {
            "id": equal("id", zone),
            "ids": equal("id", zone),
            "name": equal("name", "SMALL", "small"),
            "networktype": equal("networktype", "basic", "Basic"),
            "domainid": equal("domainid", rivals),
            "tags[0].key": of_name("small", "colour"),
            "keyword": word("mal", "name", "description"),
        },
        "listPods": {
            "id": equal("id", pod),
            "name": equal("name", "pod-a"),
            "zoneid": equal("zoneid", zone),
            "allocationstate": equal("allocationstate", "disabled", "Disabled"),
            "keyword": word("OD-", "name"),
        },
        "listClusters": {
            "id": equal("id", cluster),
            "name": equal("name", "a-1"),
            "zoneid": equal("zoneid", zone),
            "podid": equal("podid", pod),
            "hypervisor": equal("hypervisortype", "kvm", "KVM"),
            "clustertype": equal("clustertype", "ExternalManaged"),
            "managedstate": equal("managedstate", "Unmanaged"),
            "arch": constant("X86_64", keeps=True),
            "allocationstate": equal("allocationstate", "Disabled"),
            "keyword": word("-1", "name", "hypervisortype"),
        },
        "listHosts": {
            "id": equal("id", host),
            "name": equal("name", "a-1-1"),
            "zoneid": equal("zoneid", zone),
            "podid": equal("podid", pod),
            "clusterid": equal("clusterid", cluster),
            "hypervisor": equal("hypervisor", "VMware"),
            "state": equal("state", "Down"),
            "resourcestate": equal("resourcestate", "Disabled"),
            "type": constant("Routing", keeps=True),
            "arch": constant("aarch64", keeps=False),
            "managementserverid": constant(world.rows("listManagementServers")[0]["id"], keeps=True),
            "hahost": constant("true", keeps=False),
            "keyword": word("1-1", "name", "state"),
        },
        "listStoragePools": {
            "id": equal("id", pool),
            "name": equal("name", "a-1-primary"),
            "zoneid": constant(zone, keeps=True),
            "podid": equal("podid", pod),
            "clusterid": equal("clusterid", cluster),
            "ipaddress": equal("ipaddress", "10.0.1.201"),
            "path": equal("path", "/export/a-1"),
            "scope": equal("scope", "zone", "ZONE"),
            "status": equal("state", "Maintenance"),
            "hostid": Case(host, lambda row: row["name"] in ("local-disk", "a-1-primary", "zone-wide")),
            "keyword": word("primary", "name", "type"),
        },
        "listImageStores": {
            "id": equal("id", world.id_of("image_stores", "far secondary")),
            "name": equal("name", "FAR secondary", "far secondary"),
            "zoneid": equal("zoneid", zone),
            "provider": constant("nfs", keeps=True),
            "protocol": constant("S3", keeps=False),
            "readonly": equal("readonly", "true", shown=True),
            "keyword": word("FAR", "name", "providername"),
        },
        "listHostTags": {"keyword": word("G", "name")},
        "listStorageTags": {"keyword": word("fas", "name")},
        "listCapacity": {"zoneid": equal("zoneid", zone), "type": equal("type", "1", 1)},
        "listHypervisors": {"zoneid": equal("name", zone, "KVM")},
    }


def catalogue(world: World) -> dict[str, Cases]:
    """Offerings, templates, ISOs, OS types, networks and their offerings, roles."""
    zone = world.id_of("zones", "for-rivals")
    rivals = world.id_of("domains", "rivals")
    offering, disk = world.id_of("service_offerings", "Small"), world.id_of("disk_offerings", "20 GiB")
    template, iso = world.id_of("templates", "acme private"), world.id_of("templates", "acme iso")
    windows, os_type = world.id_of("os_categories", "Windows"), world.id_of("os_types", "Windows 11 (64-bit)")
    network, offered = world.id_of("networks", "acme-isolated"), world.id_of("network_offerings", "Odd")
    role = world.id_of("roles", "User")
    reader = world.id_of("roles", "Read-Only User - Default")
    vm, debian = world.id_of("virtual_machines", "acme-1"), world.id_of("templates", "Debian 12")
    root = world.scalar(
        "SELECT v.uuid::text FROM volumes v JOIN virtual_machines m ON m.id = v.vm_id WHERE m.name = 'acme-1'"
    )
    pool = world.id_of("storage_pools", "a-1-primary")
    shared = {
        "zoneid": equal("zoneid", zone),
        "hypervisor": equal("hypervisor", "vmware", "VMware"),
        "arch": equal("arch", "aarch64"),
        "keyword": word("ACME", "name", "displaytext"),
    }
    in_zone = Case(zone, lambda row: row.get("zoneid", zone) == zone, tells_apart=False)
    return {
        "listServiceOfferings": {
            "id": equal("id", offering),
            "name": equal("name", "small", "Small"),
            "zoneid": in_zone,
            "domainid": equal("domainid", rivals),
            "cpunumber": Case("8", lambda row: row["name"] in ("Rivals only", "Custom")),
            "cpuspeed": Case("1000", lambda row: row["name"] == "Rivals only"),
            "memory": Case("1024", lambda row: row["name"] in ("Rivals only", "Custom")),
            "storagetype": equal("storagetype", "local"),
            "issystem": constant("true", keeps=False),
            "virtualmachineid": of_name("Custom", vm),
            "templateid": Case(debian, lambda row: row["name"] != "Rivals only"),
            "keyword": word("core", "name", "displaytext"),
        },
        "listDiskOfferings": {
            "id": equal("id", disk),
            "name": equal("name", "20 gib", "20 GiB"),
            "zoneid": in_zone,
            "domainid": equal("domainid", rivals),
            "storagetype": equal("storagetype", "local"),
            "virtualmachineid": Case(vm, lambda row: "domainid" not in row),
            "volumeid": Case(root, lambda row: row["storagetype"] == "shared" and "tags" not in row),
            "storageid": Case(pool, lambda row: row["storagetype"] == "shared" and "tags" not in row),
            "keyword": word("GIB", "name", "displaytext"),
        },
        "listTemplates": {
            **shared,
            "isready": equal("isready", "false", shown=False),
            "id": equal("id", template),
            "ids": equal("id", template),
            "name": equal("name", "acme private"),
            "templatetype": equal("templatetype", "builtin", "BUILTIN"),
            "oscategoryid": Case(windows, lambda row: row["ostypename"].startswith("Windows")),
            "tags[0].key": of_name("acme private", "colour"),
        },
        "listIsos": {
            **shared,
            "isready": equal("isready", "true", shown=True),
            "id": equal("id", iso),
            "name": equal("name", "acme iso"),
            "bootable": equal("bootable", "true", shown=True),
            "ispublic": equal("ispublic", "false", shown=False),
            "oscategoryid": Case(windows, lambda row: row["ostypename"].startswith("Windows")),
            "tags[0].key": of_name("acme iso", "colour"),
        },
        "listOsTypes": {
            "id": equal("id", os_type),
            "ids": equal("id", os_type),
            "description": equal("description", "windows 11 (64-bit)", "Windows 11 (64-bit)"),
            "oscategoryid": equal("oscategoryid", windows),
            "fordisplay": constant("false", keeps=False),
            "keyword": word("linux", "name"),
        },
        "listOsCategories": {
            "id": equal("id", windows),
            "name": equal("name", "windows", "Windows"),
            "isfeatured": constant("false", keeps=False),
            "isiso": Case("true", lambda row: row["id"] in categories_of_images(world, isos=True)),
            "isvnf": constant("true", keeps=False),
            "zoneid": Case(zone, lambda row: row["id"] in categories_of_images(world, zone=zone)),
            "arch": Case("aarch64", lambda row: row["id"] in categories_of_images(world, arch="aarch64")),
            "keyword": word("win", "name"),
        },
        "listNetworks": {
            "id": equal("id", network),
            "name": equal("name", "acme-isolated"),
            "zoneid": equal("zoneid", zone),
            "type": equal("type", "shared", "Shared"),
            "acltype": equal("acltype", "Domain"),
            "traffictype": constant("Public", keeps=False),
            "networkofferingid": equal("networkofferingid", offered),
            "physicalnetworkid": equal("physicalnetworkid", world.id_of("physical_networks", "far-wires")),
            "issystem": equal("issystem", "true", shown=True),
            "canusefordeploy": equal("canusefordeploy", "true", shown=True),
            "supportedservices": inside("service", "name", "Weird"),
            "specifyipranges": equal("specifyipranges", "true", shown=True),
            "displaynetwork": constant("false", keeps=False),
            "restartrequired": constant("true", keeps=False),
            "vlan": equal("vlan", "vlan://100", "100"),
            "tags[0].key": of_name("acme-isolated", "colour"),
            "keyword": word("wide", "name", "displaytext"),
        },
        "listNetworkOfferings": {
            "id": equal("id", offered),
            "name": equal("name", "Odd"),
            "displaytext": equal("displaytext", "Odd one"),
            "guestiptype": equal("guestiptype", "L2"),
            "traffictype": equal("traffictype", "Public"),
            "availability": equal("availability", "Required"),
            "state": equal("state", "Disabled"),
            "isdefault": equal("isdefault", "true", shown=True),
            "specifyvlan": equal("specifyvlan", "true", shown=True),
            "specifyipranges": equal("specifyipranges", "true", shown=True),
            "tags": equal("tags", "TAGGED", "tagged"),
            "istagged": Case("true", lambda row: "tags" in row),
            "sourcenatsupported": Case("true", lambda row: "SourceNat" in services(row)),
            "domainid": constant(rivals, keeps=True),
            "zoneid": constant(zone, keeps=True),
            "networkid": instead_of(world, network),
            "supportedservices": inside("service", "name", "Weird"),
            "keyword": word("shared", "name", "displaytext"),
        },
        "listRoles": {
            "id": equal("id", role),
            "name": equal("name", "user", "User"),
            "type": equal("type", "domainadmin", "DomainAdmin"),
            "state": constant("disabled", keeps=False),
            "keyword": word("support", "name", "description"),
        },
        "listRolePermissions": {"roleid": equal("roleid", reader), "keyword": word("zones", "rule", "description")},
        "listStorageProviders": {"type": equal("type", "Image", "IMAGE"), "keyword": word("primary", "name")},
        "listDeploymentPlanners": {"keyword": word("dispersing", "name")},
        "listAffinityGroupTypes": {"keyword": word("strict", "type")},
        "listConfigurationGroups": {
            "group": equal("name", "storage", "Storage"),
            "keyword": word("stor", "name"),
        },
        "listConfigurations": {
            "name": equal("name", "START.RETRY", "start.retry"),
            "category": equal("category", "storage", "Storage"),
            "group": equal("group", "storage", "Storage"),
            "subgroup": equal("subgroup", "primary storage", "Primary Storage"),
            "parent": equal("parent", "drs.automatic.enable"),
            "zoneid": equal("scope", zone, "Zone"),
            "storageid": equal("scope", world.id_of("storage_pools", "a-1-primary"), "StoragePool"),
            "accountid": equal("scope", world.id_of("accounts", "acme"), "Account"),
            "domainid": constant(rivals, keeps=False),
            "keyword": word("threshold", "name", "description"),
        },
        "listHypervisorCapabilities": {
            "id": equal("id", world.rows("listHypervisorCapabilities", hypervisor="KVM")[0]["id"]),
            "hypervisor": equal("hypervisor", "kvm", "KVM"),
            "keyword": word("vm", "hypervisor"),
        },
        "listManagementServers": {
            "id": constant(world.rows("listManagementServers")[0]["id"], keeps=True),
            "name": constant("bulkdeploy", keeps=True),
            "version": constant("4.1", keeps=False),
            "peers": constant("true", keeps=True),
            "keyword": constant("bulk", keeps=True),
        },
        "listResourceLimits": {
            "resourcetype": equal("resourcetype", "8"),
            "resourcetypename": equal("resourcetypename", "CPU", "cpu"),
            "keyword": word("storage", "resourcetypename"),
        },
    }
