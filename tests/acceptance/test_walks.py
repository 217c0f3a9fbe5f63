"""What Terraform's provider, Cluster API's provider and CloudStack's console call in a day, in their order.

Each walk sends what that program sends and reads what it reads, on the running service, which here refuses
parameters that a command does not have.
"""

import base64
import time
from typing import Any

import pytest

from tests.acceptance.conftest import Cloud
from tests.conftest import ADMIN_PASSWORD
from tests.support.api.api_client import Answer
from tests.support.api.session_client import Browser
from tests.support.runs.waiting import PATIENCE_S

pytestmark = pytest.mark.long

LATER = "2999-01-31T12:00:00Z"
GONE = "Invalid parameter id value={} due to incorrect long value format, or entity does not exist"
"""By this text programs in Go know that something is not there any more."""

INTEGERS = {
    "virtualmachine": "cpunumber cpuspeed memory rootdeviceid jobstatus",
    "serviceoffering": "cpunumber cpuspeed memory networkrate",
    "diskoffering": "disksize",
    "template": "size physicalsize bits",
    "volume": "size deviceid",
}
BOOLEANS = {
    "virtualmachine": "haenable passwordenabled displayvm isdynamicallyscalable forvirtualnetwork deleteprotection",
    "serviceoffering": "iscustomized defaultuse issystem isvolatile limitcpuuse offerha",
    "diskoffering": "iscustomized displayoffering",
    "template": (
        "isready isfeatured ispublic isextractable passwordenabled sshkeyenabled requireshvm crossZones bootable"
    ),
    "zone": "localstorageenabled securitygroupsenabled",
    "network": "issystem isdefault restartrequired canusefordeploy specifyipranges ispersistent",
}


def assert_decodes(noun: str, thing: dict[str, Any]) -> None:
    """Go's structs take it: one field of another type, and the whole answer is lost."""
    for kind, names in ((int, INTEGERS.get(noun, "")), (bool, BOOLEANS.get(noun, ""))):
        for name in names.split():
            assert name not in thing or type(thing[name]) is kind, (noun, name, thing[name])
    for name in (
        "id",
        "name",
        "state",
        "created",
        "zoneid",
        "zonename",
        "account",
        "domain",
        "domainid",
        "hypervisor",
    ):
        assert name not in thing or type(thing[name]) is str, (noun, name, thing[name])


class GoProgram:
    """cloudstack-go: reads by GET, changes by POST, both with a version and an end of the signature."""

    def __init__(self, cloud: Cloud) -> None:
        self.client = cloud.client

    def answer(self, command: str, **parameters: object) -> Answer:
        """The whole answer of one call."""
        reads = command.startswith(("list", "get", "query"))
        send = self.client.get if reads else self.client.post
        return send(command, **parameters, signatureversion="3", expires=LATER)

    def call(self, command: str, **parameters: object) -> dict[str, Any]:
        """The object that a call, or the job that it began, answers under its only key."""
        answer = self.answer(command, **parameters)
        assert answer.status == 200, answer.text
        body = answer.body
        if "jobid" not in body:
            return self._only(body)
        deadline = time.monotonic() + PATIENCE_S
        while (job := self.answer("queryAsyncJobResult", jobid=body["jobid"]).body)["jobstatus"] == 0:
            assert time.monotonic() < deadline, job
            time.sleep(0.1)
        assert (job["jobstatus"], job["jobresultcode"]) == (1, 0), job
        return self._only(job["jobresult"])

    def one(self, command: str, noun: str, **parameters: object) -> dict[str, Any]:
        """The one thing that a list has."""
        body = self.answer(command, **parameters).body
        assert body["count"] == 1, body
        (found,) = body[noun]
        assert_decodes(noun, found)
        return dict(found)

    def by_name(self, command: str, noun: str, name: str, **more: object) -> str:
        """An id by its name: looked up by name, and then by id."""
        found = self.one(command, noun, name=name, **more)
        again = {key: value for key, value in more.items() if key == "templatefilter"}
        assert self.one(command, noun, id=found["id"], **again)["name"] == name
        return str(found["id"])

    @staticmethod
    def _only(body: dict[str, Any]) -> dict[str, Any]:
        if body.get("success") is True:
            return body
        ((noun, found),) = ((key, value) for key, value in body.items() if key != "count")
        thing = found[0] if isinstance(found, list) else found
        assert_decodes(noun, thing)
        return dict(thing)


@pytest.fixture(autouse=True)
def strict(cloud: Cloud) -> None:
    """What no command has is refused: these programs send nothing of the kind."""
    cloud.client.call("updateConfiguration", name="api.unknown.parameters.refused", value="true")


def test_as_terraform(cloud: Cloud) -> None:
    """An instance with a disk, tags and a group: planned, made, read, changed, and destroyed twice."""
    go = GoProgram(cloud)
    offering = go.by_name("listServiceOfferings", "serviceoffering", "Small")
    zone = go.by_name("listZones", "zone", "small")
    assert go.one("listZones", "zone", id=zone)["networktype"] == "Advanced"
    template = go.by_name(
        "listTemplates", "template", "Debian 12", templatefilter="executable", zoneid=zone, showunique="true"
    )
    disk = go.by_name("listDiskOfferings", "diskoffering", "20 GiB")
    network = go.by_name("listNetworks", "network", "guests")
    key = go.call("createSSHKeyPair", name="terraform")
    assert "PRIVATE KEY" in key["privatekey"]
    group = go.call("createAffinityGroup", name="terraform", type="host anti-affinity")["id"]
    made = go.call(
        "deployVirtualMachine",
        serviceofferingid=offering,
        templateid=template,
        zoneid=zone,
        startvm="true",
        name="tf-one",
        displayname="tf-one",
        rootdisksize=5,
        overridediskofferingid=disk,
        networkids=network,
        group="terraform",
        affinitygroupids=group,
        keypairs="terraform",
        userdata=base64.b64encode(b"#cloud-config").decode(),
        **{"userdatadetails[0].key": "userdatadetails[0].role", "userdatadetails[0].value": "web"},
    )
    vm = made["id"]
    assert made["nic"][0]["ipaddress"]
    go.call("createTags", resourceids=vm, resourcetype="userVm", **{"tags[0].key": "by", "tags[0].value": "tf"})
    read = go.one("listVirtualMachines", "virtualmachine", id=vm)
    assert (read["name"], read["displayname"], read["group"], read["state"]) == (
        *("tf-one", "tf-one", "terraform", "Running"),
    )
    assert (read["nic"][0]["networkid"], read["serviceofferingid"], read["templateid"], read["zoneid"]) == (
        *(network, offering, template, zone),
    )
    assert [(tag["key"], tag["value"]) for tag in read["tags"]] == [("by", "tf")]
    assert [each["id"] for each in read["affinitygroup"]] == [group]
    assert go.one("listVolumes", "volume", type="ROOT", virtualmachineid=vm)["size"] >> 30 == 5
    go.call("updateVirtualMachine", id=vm, displayname="Terraform's first")
    go.call("stopVirtualMachine", id=vm)
    go.call("updateVirtualMachine", id=vm, name="tf-two")
    go.call("changeServiceForVirtualMachine", id=vm, serviceofferingid=offering)
    assert go.call("updateVMAffinityGroup", id=vm, affinitygroupids="")["affinitygroup"] == []
    go.call("resetSSHKeyForVirtualMachine", id=vm, keypairs="terraform")
    assert go.call("startVirtualMachine", id=vm)["state"] == "Running"
    volume = go.call("createVolume", name="tf-disk", diskofferingid=disk, zoneid=zone)["id"]
    attached = go.call("attachVolume", id=volume, virtualmachineid=vm)
    assert (attached["virtualmachineid"], attached["deviceid"]) == (vm, 1)
    assert go.one("listVolumes", "volume", id=volume)["virtualmachineid"] == vm
    go.call("detachVolume", id=volume)
    go.call("deleteVolume", id=volume)
    go.call("destroyVirtualMachine", id=vm, expunge="true")
    assert go.answer("destroyVirtualMachine", id=vm, expunge="true").status == 431
    nobody = "00000000-0000-4000-8000-00000000dead"
    assert GONE.format(nobody) in go.answer("destroyVirtualMachine", id=nobody).body["errortext"]
    assert go.answer("listVirtualMachines", id=vm).body.get("count", 0) == 0
    go.call("deleteAffinityGroup", id=group)
    go.call("deleteSSHKeyPair", name="terraform")


def test_as_cluster_api(cloud: Cloud) -> None:
    """A machine of a cluster: not there yet, made of what its names stand for, found, and destroyed."""
    go = GoProgram(cloud)
    for requested in ({"name": "capc-1"}, {"id": "00000000-0000-4000-8000-00000000dead"}):
        assert go.answer("listVirtualMachinesMetrics", **requested).body.get("count", 0) == 0
    zone = go.by_name("listZones", "zone", "small")
    network = go.one("listNetworks", "network", name="guests")
    assert (network["type"], network["zoneid"]) == ("Shared", zone)
    domain = go.one("listDomains", "domain", name="ROOT", listall="true")
    assert go.one("listAccounts", "account", name="admin", domainid=domain["id"])["domainid"] == domain["id"]
    group = go.call("createAffinityGroup", name="capc", type="host anti-affinity")["id"]
    assert go.one("listAffinityGroups", "affinitygroup", name="capc")["id"] == group
    tag = {"tags[0].key": "CAPC_cluster_1", "tags[0].value": "1"}
    go.call("createTags", resourceids=network["id"], resourcetype="Network", **tag)
    assert go.one("listTags", "tag", resourceid=network["id"], resourcetype="Network")["key"] == "CAPC_cluster_1"
    offering = go.by_name("listServiceOfferings", "serviceoffering", "Small")
    template = go.by_name("listTemplates", "template", "Debian 12", templatefilter="executable", zoneid=zone)
    custom = go.one("listDiskOfferings", "diskoffering", name="Custom")
    assert custom["iscustomized"] is True
    requested = {
        "serviceofferingid": offering,
        "templateid": template,
        "zoneid": zone,
        "networkids": network["id"],
        "name": "capc-1",
        "displayname": "capc-1",
        "diskofferingid": custom["id"],
        "size": "3",
        "userdata": base64.b64encode(b"#cloud-config" + b" " * 9000).decode(),
        "affinitygroupids": group,
        "details[0].memoryOvercommitRatio": "1.2",
    }
    vm = go.call("deployVirtualMachine", **requested)["id"]
    for known in ({"id": vm}, {"name": "capc-1"}):
        machine = go.one("listVirtualMachinesMetrics", "virtualmachine", **known)
        assert (machine["id"], machine["state"], bool(machine["ipaddress"])) == (vm, "Running", True)
    twin = go.answer("deployVirtualMachine", **requested)
    assert (twin.status, "already exists" in twin.body["errortext"]) == (431, True)
    where = {"templateid": template, "zoneid": zone, "networkid": network["id"], "name": "capc-1"}
    assert go.one("listVirtualMachines", "virtualmachine", **where)["id"] == vm
    data = go.one("listVolumes", "volume", virtualmachineid=vm, type="DATADISK")["id"]
    go.call("destroyVirtualMachine", id=vm, expunge="true", volumeids=data)
    assert go.answer("listVirtualMachinesMetrics", id=vm).body.get("count", 0) == 0
    go.call("deleteTags", resourceids=network["id"], resourcetype="Network", **tag)
    go.call("deleteAffinityGroup", id=group)


SIGN_IN: tuple[tuple[str, dict[str, str]], ...] = (
    ("listZones", {}),
    ("listApis", {}),
    ("listNetworks", {"restartrequired": "true", "forvpc": "false"}),
    ("listVPCs", {"restartrequired": "true"}),
    ("listNetworkServiceProviders", {"name": "SecurityGroupProvider", "state": "Enabled"}),
    ("listCapabilities", {}),
    ("listLdapConfigurations", {}),
)
PAGE = {"listall": "true", "page": "1", "pagesize": "20", "showicon": "true"}
PAGES: tuple[tuple[str, dict[str, str]], ...] = (
    ("listVirtualMachinesMetrics", {"details": "servoff,tmpl,iso,nics,backoff", "isvnf": "false"}),
    ("listVolumesMetrics", {}),
    ("listNetworks", {}),
    ("listTemplates", {"templatefilter": "self", "showunique": "true"}),
    ("listIsos", {"isofilter": "self", "showunique": "true"}),
    ("listEvents", {}),
    ("listZonesMetrics", {}),
    ("listPods", {}),
    ("listClustersMetrics", {}),
    ("listHostsMetrics", {"type": "routing"}),
    ("listStoragePoolsMetrics", {}),
    ("listImageStores", {}),
    ("listSystemVms", {}),
    ("listRouters", {}),
    ("listAlerts", {}),
    ("listAccounts", {}),
    ("listDomains", {}),
    ("listUsers", {}),
    ("listRoles", {}),
    ("listProjects", {"details": "min"}),
    ("listServiceOfferings", {"isrecursive": "true"}),
    ("listDiskOfferings", {"isrecursive": "true"}),
    ("listNetworkOfferings", {}),
    ("listSSHKeyPairs", {}),
    ("listUserData", {}),
    ("listAffinityGroups", {}),
    ("listSecurityGroups", {}),
    ("listInstanceGroups", {}),
    ("listSnapshots", {}),
    ("listPublicIpAddresses", {}),
    ("listConfigurations", {}),
    ("listConfigurationGroups", {}),
)


def test_as_the_console(cloud: Cloud) -> None:
    """Signing in and opening every page: each call is answered under its key, what there is none of is empty."""
    browser = Browser(cloud.client.url)
    entered = browser.login("admin", ADMIN_PASSWORD, domain="/").json()["loginresponse"]
    read = ("account", "domainid", "type", "firstname", "lastname", "userid", "username", "sessionkey")
    assert all(type(entered[name]) is str for name in read)
    answers = {}
    for command, more in (*SIGN_IN, *((name, PAGE | more) for name, more in PAGES)):
        answer = browser.call(command, **more)
        assert answer.status_code == 200, (command, answer.text)
        ((key, answers[command]),) = answer.json().items()
        expected = (
            "ldapconfigurationresponse" if command == "listLdapConfigurations" else f"{command.lower()}response"
        )
        assert key == expected
    apis = answers["listApis"]["api"]
    shown = {api["name"] for api in apis}
    assert {"listVirtualMachinesMetrics", "deployVirtualMachine", "listInfrastructure"} <= shown
    assert all({"name", "params", "response", "isasync", "description"} <= api.keys() for api in apis)
    assert type(answers["listCapabilities"]["capability"]) is dict
    assert answers["listZones"]["zone"][0]["networktype"] == "Advanced"
    user = browser.call("listUsers", id=entered["userid"]).json()["listusersresponse"]["user"][0]
    assert (user["rolename"], user["firstname"]) == ("Root Admin", entered["firstname"])
    counts = browser.call("listInfrastructure").json()["listinfrastructureresponse"]["infrastructure"]
    assert (counts["zones"], counts["pods"], counts["clusters"], counts["hosts"]) == (1, 2, 4, 12)
    host = answers["listHostsMetrics"]["host"][0]
    assert browser.call("listHosts", id=host["id"], listall="true").json()["listhostsresponse"]["count"] == 1
    assert browser.call("logout").json() == {"logoutresponse": {"description": "success"}}
    assert browser.call("listZones").status_code == 401
