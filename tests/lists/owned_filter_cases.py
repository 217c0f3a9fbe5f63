"""The filter cases of lists of things that accounts own, and of the owners themselves."""

from tests.lists.filter_cases import Case, Cases, constant, equal, inside, of_name, word
from tests.support.zones.world import World


def owners(world: World) -> dict[str, Cases]:
    """Accounts, users, domains, projects."""
    acme, user = world.id_of("accounts", "acme"), world.id_of("users", "acme", "username")
    customers, moon = world.id_of("domains", "customers"), world.id_of("projects", "moon")
    return {
        "listAccounts": {
            "id": equal("id", acme),
            "name": equal("name", "ACME", "acme"),
            "accounttype": equal("accounttype", "2", 2),
            "state": constant("disabled", keeps=False),
            "iscleanuprequired": constant("true", keeps=False),
            "keyword": word("ME", "name"),
        },
        "listUsers": {
            "id": equal("id", user),
            "username": equal("username", "ACME", "acme"),
            "accounttype": equal("accounttype", "0", 0),
            "state": constant("enabled", keeps=True),
            "usersource": constant("ldap", keeps=False),
            "keyword": word("carla", "username", "firstname", "lastname", "email"),
        },
        "listDomains": {
            "id": equal("id", customers),
            "name": equal("name", "customers"),
            "level": equal("level", "1", 1),
            "keyword": word("m", "name"),
        },
        "listDomainChildren": {
            "id": Case(customers, lambda row: row["path"].startswith("ROOT/customers/")),
            "name": equal("name", "customers"),
            "keyword": word("m", "name"),
        },
        "listProjectInvitations": {
            "id": equal("state", world.id_of("project_invitations", "Declined", "state"), "Declined"),
            "projectid": constant(moon, keeps=True),
            "activeonly": equal("state", "true", "Pending"),
            "state": equal("state", "declined", "Declined"),
            "keyword": word("CUST", "account"),
        },
        "listProjects": {
            "id": constant(moon, keeps=True),
            "name": constant("sun", keeps=False),
            "displaytext": constant("to the MOON", keeps=True),
            "state": constant("Suspended", keeps=False),
            "username": constant("ACME", keeps=True),
            "keyword": constant("oo", keeps=True),
        },
    }


def groups(world: World) -> dict[str, Cases]:
    """Groups, keys, user data, tags and events."""
    vm = world.id_of("virtual_machines", "rival-1")
    group = world.id_of("security_groups", "Of rival", "description")
    affinity = world.id_of("affinity_groups", "group of rival")
    key, things = world.id_of("ssh_key_pairs", "laptop"), world.id_of("instance_groups", "things of acme")
    data = world.id_of("user_data", "data of acme")
    old = str(world.scalar("SELECT uuid FROM events WHERE level = 'WARN'"))
    return {
        "listSecurityGroups": {
            "id": equal("id", group),
            "securitygroupname": equal("name", "DEFAULT", "default"),
            "virtualmachineid": equal("id", vm, group),
            "tags[0].key": equal("id", "colour", group),
            "keyword": word("rival", "name", "description"),
        },
        "listAffinityGroups": {
            "id": equal("id", affinity),
            "name": equal("name", "group of rival"),
            "type": equal("type", "explicitdedication", "ExplicitDedication"),
            "virtualmachineid": Case(vm, lambda row: vm in row["virtualmachineIds"]),
            "keyword": word("affinity", "name", "type"),
        },
        "listSSHKeyPairs": {
            "id": equal("id", key),
            "name": equal("name", "laptop"),
            "fingerprint": equal("fingerprint", "aa:rival"),
            "keyword": word("key of", "name", "fingerprint"),
        },
        "listInstanceGroups": {
            "id": equal("id", things),
            "name": equal("name", "things of acme"),
            "keyword": word("acme", "name"),
        },
        "listUserData": {
            "id": equal("id", data),
            "name": equal("name", "data of acme"),
            "keyword": word("acme", "name"),
        },
        "listTags": {
            "key": constant("colour", keeps=True),
            "value": equal("value", "blue"),
            "resourcetype": equal("resourcetype", "uservm", "UserVm"),
            "resourceid": equal("resourceid", vm),
            "customer": constant("c", keeps=True),
            "keyword": word("blu", "key", "value"),
        },
        "listEvents": {
            "id": equal("id", old),
            "startid": Case(old, lambda row: old in (row["id"], row.get("parentid"))),
            "type": equal("type", "vm.start", "VM.START"),
            "level": equal("level", "warn", "WARN"),
            "state": equal("state", "completed", "Completed"),
            "startdate": Case("2020-02-03", lambda row: row["created"] >= "2020-02-03"),
            "enddate": Case("2020-02-02", lambda row: row["created"] < "2020-02-03"),
            "resourcetype": equal("resourcetype", "virtualmachine", "VirtualMachine"),
            "resourceid": equal("resourceid", vm),
            "keyword": word("start", "type", "description", "level", "username"),
        },
    }


def machines(world: World) -> dict[str, Cases]:
    """Virtual machines and volumes."""
    vm, zone = world.id_of("virtual_machines", "rival-1"), world.id_of("zones", "for-rivals")
    pool, host = world.id_of("storage_pools", "local-disk"), host_of(world, "acme-1")
    pod, cluster = world.id_of("pods", "pod-a"), world.id_of("clusters", "a-1")
    offering = world.id_of("service_offerings", "Rivals only")
    volume, snapshot = world.id_of("volumes", "DATA"), world.id_of("vm_snapshots", "second")
    of_volume = world.id_of("vm_snapshots", "volume of rival-1")
    places = placed(world)
    deployment = str(world.scalar("SELECT uuid FROM deployments ORDER BY id LIMIT 1"))
    return {
        "listVirtualMachines": {
            "id": equal("id", vm),
            "ids": equal("id", vm),
            "name": equal("name", "ACME-1", "acme-1"),
            "state": equal("state", "running", "Running"),
            "zoneid": equal("zoneid", zone),
            "podid": Case(pod, lambda row: places[row["id"]][0] == "pod-a" and row["state"] != "Destroyed"),
            "clusterid": Case(cluster, lambda row: places[row["id"]][1] == "a-1"),
            "hostid": equal("hostid", host),
            "storageid": of_name("rival-1", pool),
            "hypervisor": equal("hypervisor", "vmware", "VMware"),
            "serviceofferingid": equal("serviceofferingid", offering),
            "templateid": equal("templateid", world.id_of("templates", "Debian 12")),
            "isoid": equal("isoid", world.id_of("templates", "rival iso")),
            "networkid": inside("nic", "networkid", world.id_of("networks", "guests")),
            "securitygroupid": inside(
                "securitygroup", "id", world.id_of("security_groups", "Of rival", "description")
            ),
            "affinitygroupid": inside("affinitygroup", "id", world.id_of("affinity_groups", "apart")),
            "groupid": equal("groupid", world.id_of("instance_groups", "things of rival")),
            "userid": equal("userid", world.id_of("users", "rival", "username")),
            "keypair": equal("keypairs", "laptop"),
            "leased": Case("true", lambda row: "leaseduration" in row),
            "haenable": equal("haenable", "true", shown=True),
            "displayvm": equal("displayvm", "false", shown=False),
            "userdataid": equal("userdata", world.id_of("user_data", "data of acme"), "aGVsbG8="),
            "forvirtualnetwork": inside("nic", "type", "true", shown="Isolated"),
            "arch": of_name("rival-1", "AARCH64"),
            "tags[0].key": Case("colour", lambda row: bool(row["tags"])),
            "keyword": word("ACME-", "name", "displayname", "instancename", "state"),
        },
        "listVMSnapshot": {
            "vmsnapshotid": equal("id", snapshot),
            "vmsnapshotids": equal("id", snapshot),
            "virtualmachineid": equal("virtualmachineid", vm),
            "name": equal("displayname", "OF RIVAL-1", "of rival-1"),
            "state": equal("state", "ready", "Ready"),
            "tags[0].key": equal("displayname", "colour", "second"),
            "keyword": word("nightly", "name", "displayname", "description"),
        },
        "listSnapshots": {
            "id": equal("id", of_volume),
            "ids": equal("id", of_volume),
            "volumeid": equal("volumeid", volume),
            "zoneid": equal("zoneid", zone),
            "storageid": equal("volumeid", pool, volume),
            "name": equal("name", "VOLUME OF RIVAL-1", "volume of rival-1"),
            "snapshottype": constant("manual", keeps=True),
            "intervaltype": constant("daily", keeps=False),
            "locationtype": constant("primary", keeps=True),
            "showunique": constant("true", keeps=True),
            "tags[0].key": equal("id", "colour", of_volume),
            "keyword": word("of rival", "name"),
        },
        "listSnapshotPolicies": {
            "id": equal("volumeid", world.id_of("snapshot_policies", "WEEKLY", "interval_type"), volume),
            "volumeid": equal("volumeid", volume),
            "fordisplay": constant("false", keeps=False),
            "keyword": equal("intervaltype", "week", 2),
        },
        "listVMSchedule": {
            "id": equal("description", world.id_of("vm_schedules", "at night", "description"), "at night"),
            "virtualmachineid": equal("virtualmachineid", vm),
            "groupid": equal("groupid", world.id_of("instance_groups", "things of rival")),
            "deploymentid": Case(deployment, lambda row: row.get("deploymentid") == deployment),
            "action": equal("action", "stop", "STOP"),
            "enabled": equal("enabled", "false", False),
            "keyword": word("night", "description"),
        },
        "listVolumes": {
            "id": equal("id", volume),
            "ids": equal("id", volume),
            "name": equal("name", "data", "DATA"),
            "type": equal("type", "datadisk", "DATADISK"),
            "state": equal("state", "ready", "Ready"),
            "virtualmachineid": equal("virtualmachineid", vm),
            "zoneid": equal("zoneid", zone),
            "diskofferingid": equal("diskofferingid", world.id_of("disk_offerings", "Rivals disk")),
            "serviceofferingid": equal("serviceofferingid", offering),
            "podid": equal("podid", pod),
            "clusterid": equal("clusterid", cluster),
            "hostid": Case(host, lambda row: host_of(world, row["vmname"]) == host),
            "attached": constant("true", keeps=True),
            "storageid": equal("storageid", pool),
            "displayvolume": constant("true", keeps=True),
            "listsystemvms": constant("true", keeps=True),
            "tags[0].key": equal("name", "colour", "DATA"),
            "keyword": word("data", "name", "type", "state"),
        },
    }


def host_of(world: World, vm_name: str) -> str:
    """The uuid of the host that a VM holds, or nothing."""
    return str(
        world.scalar(
            "SELECT h.uuid FROM virtual_machines v LEFT JOIN hosts h ON h.id = v.host_id WHERE v.name = :name",
            name=vm_name,
        )
    )


def placed(world: World) -> dict[str, tuple[str, str]]:
    """The names of each VM's pod and cluster, by the VM's uuid."""
    sql = (
        "SELECT jsonb_object_agg(v.uuid, ARRAY[p.name, c.name]) FROM virtual_machines v"
        " JOIN pods p ON p.id = v.pod_id JOIN clusters c ON c.id = v.cluster_id"
    )
    return {vm: (pod, cluster) for vm, (pod, cluster) in world.scalar(sql).items()}
