"""What another CloudStack answers: entities and listApis as a server of the upstream project writes them."""

from typing import Any

ZONE = "5f5c3d6a-1111-4c1e-9a55-0a4c5a1b0001"
OTHER_ZONE = "5f5c3d6a-2222-4c1e-9a55-0a4c5a1b0002"
OFFERING = "0f6a2f7e-3333-4b0e-8a53-b5a4a9a30001"
TEMPLATE = "9d3c0f62-4444-4b0e-8a53-b5a4a9a30001"
OTHER_TEMPLATE = "9d3c0f62-5555-4b0e-8a53-b5a4a9a30002"
NETWORKS = ("7a1d2e3f-6666-4b0e-8a53-b5a4a9a30001", "7a1d2e3f-6666-4b0e-8a53-b5a4a9a30002")
CLUSTERS = tuple(f"c1c1c1c1-7777-4b0e-8a53-b5a4a9a3000{number}" for number in range(1, 4))
HOSTS = tuple(f"b0b0b0b0-8888-4b0e-8a53-b5a4a9a3000{number}" for number in range(1, 4))
POD = "a0a0a0a0-9999-4b0e-8a53-b5a4a9a30001"
ADMIN = "e5e5e5e5-aaaa-4b0e-8a53-b5a4a9a30001"


def host(number: int) -> dict[str, Any]:
    """A host of the recorded zone; each is in a cluster of its own."""
    return {
        "id": HOSTS[number], "name": f"kvm-{number + 1}", "state": "Up", "type": "Routing",
        "zoneid": ZONE, "zonename": "Demo", "podid": POD, "podname": "pod-a",
        "clusterid": CLUSTERS[number], "clustername": f"cluster-{number + 1}", "hypervisor": "KVM",
    }  # fmt: skip


LISTS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "listZones": (
        "zone",
        [
            {"id": ZONE, "name": "Demo", "networktype": "Advanced", "allocationstate": "Enabled", "tags": []},
            {"id": OTHER_ZONE, "name": "Zürich \x1b[31m", "networktype": "Basic", "allocationstate": "Disabled"},
        ],
    ),
    "listServiceOfferings": (
        "serviceoffering",
        [{"id": OFFERING, "name": "Small Instance", "displaytext": "1 core", "cpunumber": 1, "memory": 512}],
    ),
    "listTemplates": (
        "template",
        [
            {"id": TEMPLATE, "name": "Debian 12", "zoneid": ZONE, "zonename": "Demo", "hypervisor": "KVM"},
            {"id": OTHER_TEMPLATE, "name": "Debian 12", "zoneid": OTHER_ZONE, "zonename": "Zürich"},
        ],
    ),
    "listNetworks": (
        "network",
        [{"id": NETWORKS[0], "name": "front", "type": "Isolated"}, {"id": NETWORKS[1], "name": "back"}],
    ),
    "listClusters": (
        "cluster",
        [{"id": CLUSTERS[n], "name": f"cluster-{n + 1}", "podname": "pod-a"} for n in range(3)],
    ),
    "listHosts": ("host", [host(number) for number in range(3)]),
    "listAccounts": ("account", [{"id": ADMIN, "name": "admin", "domain": "ROOT"}]),
    "listUsers": ("user", [{"id": ADMIN, "username": "admin", "apikey": "shown-key", "account": "admin"}]),
    "listEvents": ("event", [{"id": str(number), "type": "VM.CREATE", "level": "INFO"} for number in range(1200)]),
}
"""The lists that never change: key and rows. The first 500 rows are all a caller gets without paging."""


def _parameter(name: str, kind: str, required: bool = False, related: str = "") -> dict[str, Any]:
    given = {"name": name, "description": f"the {name} of it", "type": kind, "length": 255, "required": required}
    return given | {"related": related} if related else given


PAGING = (_parameter("page", "integer"), _parameter("pagesize", "integer"), _parameter("keyword", "string"))


def _field(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"its {name}", "type": "string"}


def _api(
    name: str, *parameters: dict[str, Any], fields: str = "id name state", isasync: bool = False
) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"What {name} does",
        "since": "4.2",
        "isasync": isasync,
        "related": "listApis",
        "params": list(parameters),
        # Real servers list fields that nobody described as empty objects.
        "response": [
            *({"name": field, "description": f"its {field}", "type": "string"} for field in fields.split()),
            {},
        ],
    }


def apis() -> list[dict[str, Any]]:
    """The APIs of the recorded server, in no order."""
    listing = [
        _api(name, _parameter("id", "uuid"), _parameter("name", "string"), _parameter("zoneid", "uuid"), *PAGING)
        for name in LISTS
        if name != "listTemplates"
    ]
    bulk = (
        _parameter("zoneid", "uuid", True, "createZone,listZones"),
        _parameter("serviceofferingid", "uuid", True),
        _parameter("templateid", "uuid", True),
        _parameter("virtualmachinecount", "integer", True),
        _parameter("networkids", "list"),
        _parameter("clusterid", "uuid"),
        _parameter("account", "string"),
        _parameter("userdata", "string"),
        _parameter("dryrun", "boolean"),
    )
    deploy = tuple(one for one in bulk if one["name"] != "virtualmachinecount")
    return [
        *listing,
        _api("listTemplates", _parameter("templatefilter", "string", True), _parameter("name", "string"),
             _parameter("zoneid", "uuid"), *PAGING),
        _api("listVirtualMachines", _parameter("id", "uuid"), _parameter("name", "string"),
             _parameter("listall", "boolean"), *PAGING, fields="id name state hostname"),
        _api("destroyVirtualMachine", _parameter("id", "uuid", True), isasync=True),
        _api("deployVirtualMachine", *deploy, _parameter("name", "string"), _parameter("password", "string"),
             _parameter("details", "map"), _parameter("iptonetworklist", "map"), isasync=True),
        _api("bulkDeployVirtualMachine", *bulk, fields="jobid jobstatus jobinstanceid"),
        _api("queryAsyncJobResult", _parameter("jobid", "uuid", True), fields="jobid jobstatus jobresult"),
        _api("listAsyncJobs", _parameter("listall", "boolean"), *PAGING, fields="jobid jobstatus"),
        _api("updateZone", _parameter("id", "uuid", True), _parameter("name", "string")),
        _api("getUserKeys", _parameter("id", "uuid", True), fields="apikey secretkey"),
        _api("listApis", _parameter("name", "string"), fields="name description"),
    ]  # fmt: skip


def deployment_apis() -> list[dict[str, Any]]:
    """What a server has besides that knows deployments as a whole."""
    return [
        _api("listBulkDeployments", _parameter("id", "uuid"), _parameter("listall", "boolean"), *PAGING,
             fields="id state asked queued running succeeded failed"),
    ]  # fmt: skip
