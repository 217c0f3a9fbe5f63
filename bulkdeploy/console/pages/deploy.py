"""The deploy form, its plan, which updates while the user types, and the deploy call."""

import base64
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import urlencode

from flask import Response

from bulkdeploy.console.calls import ApiRefused, Calls, Row
from bulkdeploy.console.command_forms import wrong_field
from bulkdeploy.console.command_line import command_line, lists_of_names
from bulkdeploy.console.limits_after import limits_after
from bulkdeploy.console.rendering import address
from bulkdeploy.console.spread import spread_of
from bulkdeploy.console.visit import Visit

COMMAND = "bulkDeployVirtualMachine"
Reader: TypeAlias = Callable[[], list[dict[str, Any]]]
"""A function that reads a list of choices."""
SIMPLE = (
    "zoneid",
    "serviceofferingid",
    "templateid",
    "virtualmachinecount",
    "nameprefix",
    "minimumcount",
    "userdataid",
    "diskofferingid",
    "size",
    "rootdisksize",
    "group",
    "hypervisor",
    "deploymentplanner",
    "startvm",
    "managed",
)
"""Fields that are parameters as they are."""
MANY = ("networkids", "securitygroupids", "affinitygroupids", "keypairs")
"""Fields with several values."""
CUSTOM = ("cpuNumber", "cpuSpeed", "memory")
"""What offerings leave open."""
FIELDS = (*SIMPLE, *MANY, *CUSTOM, "owner", "place", "userdata")
FIELD_OF: Mapping[str, str] = MappingProxyType(
    {
        "account": "owner",
        "domainid": "owner",
        "projectid": "owner",
        "podid": "place",
        "clusterid": "place",
        "details": "cpuNumber",
    }
)
"""Parameters that stand in fields of other names."""
NEEDED = ("zoneid", "serviceofferingid", "templateid", "virtualmachinecount")
INSUFFICIENT_CAPACITY = 533
DRY_RUN = {"dryrun": True, "summary": True}
NAMES_ONLY = {"details": "min"}
"""Makes lists of owners leave out counts and limits, which cost more than the names."""


@dataclass(frozen=True, slots=True)
class Form:
    """The submitted values of the deploy form.

    Attributes:
        values: the values of fields with one value, by name.
        many: the values of fields with several values, by name.
    """

    values: Mapping[str, str]
    many: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, visit: Visit) -> "Form":
        """Create the form from the submitted values, or from the URL if the request is not a POST."""
        source = visit.request.form if visit.request.method == "POST" else visit.request.args
        return cls(
            {name: source.get(name, "").strip() if name != "userdata" else source.get(name, "") for name in FIELDS},
            {name: tuple(value for value in source.getlist(name) if value) for name in MANY},
        )

    def of_owner(self) -> dict[str, str]:
        """Return the parameters that name the owner. If they are empty, the signed-in user is the owner."""
        kind, _, rest = self.values["owner"].partition(":")
        if kind == "project":
            return {"projectid": rest}
        domain, _, account = rest.partition(":")
        return {"account": account, "domainid": domain} if kind == "account" else {}

    def parameters(self, *, custom: bool) -> dict[str, str]:
        """Return the parameters of the deploy call. ``custom`` is true if the offering needs sizes."""
        values = self.values
        given = {name: values[name] for name in SIMPLE} | self.of_owner()
        given |= {name: ",".join(self.many[name]) for name in MANY}
        kind, _, place = values["place"].partition(":")
        if kind in ("pod", "cluster"):
            given[f"{kind}id"] = place
        if values["userdata"]:
            given["userdata"] = base64.b64encode(values["userdata"].replace("\r\n", "\n").encode()).decode()
        if custom:
            given |= {f"details[0].{name}": values[name] for name in CUSTOM}
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class Choices:
    """The form with the options of its fields. The options depend on the values of earlier fields.

    Attributes:
        lists: the rows to choose from, by name of the list.
        zone: the selected zone, or an empty row.
        custom: whether the selected offering needs sizes.
        without_hypervisor: whether the selected template has no hypervisor type, so that the form asks for one.
    """

    form: Form
    lists: Mapping[str, list[dict[str, Any]]]
    zone: Mapping[str, Any]
    custom: bool
    without_hypervisor: bool

    def parameters(self) -> dict[str, str]:
        """Return the parameters of the deploy call."""
        return self.form.parameters(custom=self.custom)


def like(vm: Row) -> str:
    """Return the URL of the deploy form with the values of an existing VM, for one more VM of the same owner."""
    owner = f"account:{vm.get('domainid', '')}:{vm.get('account', '')}"
    if vm.get("projectid"):
        owner = f"project:{vm['projectid']}"
    filled: dict[str, object] = {
        name: vm.get(name) for name in ("zoneid", "serviceofferingid", "templateid", "diskofferingid", "group")
    }
    filled |= {"userdataid": vm.get("userdataid"), "owner": owner, "virtualmachinecount": 1}
    filled |= {"cpuNumber": vm.get("cpunumber"), "cpuSpeed": vm.get("cpuspeed"), "memory": vm.get("memory")}
    filled["networkids"] = [nic["networkid"] for nic in vm.get("nic") or ()]
    filled["securitygroupids"] = [one["id"] for one in vm.get("securitygroup") or ()]
    filled["affinitygroupids"] = [one["id"] for one in vm.get("affinitygroup") or ()]
    filled["keypairs"] = [name for name in str(vm.get("keypairs") or "").split(",") if name]
    return address("deploy", filled)


def choices(visit: Visit, needs: Callable[[Form], Collection[str]] | None = None) -> Choices:
    """Return the deploy form with its options, which are read from the API for each request.

    Args:
        visit: the request with the form.
        needs: a function that returns the names of the lists to read, besides zones and offerings. None: all lists.
    """
    form, calls = Form.of(visit), visit.calls
    zones = calls.rows("listZones")
    zone = next((row for row in zones if row["id"] == form.values["zoneid"]), zones[0] if len(zones) == 1 else {})
    form = Form({**form.values, "zoneid": zone.get("id", "")}, form.many)
    readers = _of_owner(calls, form) | (_of_zone(calls, zone, form) if zone else {})
    readers |= {
        "accounts": partial(calls.rows, "listAccounts", {"listall": True, "state": "enabled", **NAMES_ONLY}),
        "projects": partial(calls.rows, "listProjects", {"listall": True, "state": "Active", **NAMES_ONLY}),
        "disks": partial(calls.rows, "listDiskOfferings", {"state": "Active"}),
        "planners": partial(calls.rows, "listDeploymentPlanners"),
    }
    needed = readers.keys() if needs is None else needs(form)
    lists = {"zones": zones, "offerings": calls.rows("listServiceOfferings", {"state": "Active"})}
    lists |= {name: read() for name, read in readers.items() if name in needed}
    offering = next((row for row in lists["offerings"] if row["id"] == form.values["serviceofferingid"]), {})
    template = next((row for row in lists.get("templates", ()) if row["id"] == form.values["templateid"]), {})
    return Choices(
        form,
        lists,
        zone,
        str(offering.get("iscustomized")).lower() == "true",
        bool(template and not template.get("hypervisor")),
    )


def _of_owner(calls: Calls, form: Form) -> dict[str, Reader]:
    """Return functions that read the lists that depend on the owner, by name of the list."""
    owner = form.of_owner()
    return {
        "affinity_groups": partial(calls.rows, "listAffinityGroups", owner),
        "keypairs": partial(calls.rows, "listSSHKeyPairs", owner),
        "user_data": partial(calls.rows, "listUserData", owner),
    }


def _of_zone(calls: Calls, zone: Mapping[str, Any], form: Form) -> dict[str, Reader]:
    """Return functions that read the lists that depend on the zone, by name of the list."""
    of_zone, owner = {"zoneid": zone["id"]}, form.of_owner()
    readers: dict[str, Reader] = {
        "templates": partial(calls.rows, "listTemplates", {"templatefilter": "executable", **of_zone}),
        "pods": partial(calls.rows, "listPods", of_zone),
        "clusters": partial(calls.rows, "listClusters", of_zone),
    }
    if zone.get("networktype") == "Advanced":
        readers["networks"] = partial(calls.rows, "listNetworks", {**of_zone, **owner, "canusefordeploy": True})
    if str(zone.get("securitygroupsenabled")).lower() == "true":
        readers["security_groups"] = partial(calls.rows, "listSecurityGroups", owner)
    return readers


def form_page(visit: Visit) -> Response:
    """Return the page with the deploy form."""
    return visit.page("deploy.html", choices=choices(visit), token=secrets.token_urlsafe(16), wrong={}, text="")


def form_fields(visit: Visit) -> Response:
    """Return the fields of the deploy form, updated after a change of a field on which others depend."""
    return visit.page("fragments/deploy_fields.html", choices=choices(visit), wrong={})


def plan(visit: Visit) -> Response:
    """Return the plan of the deploy call, calculated by a dry run, or the reason why the call would be rejected."""
    chosen = choices(visit, lambda form: lists_of_names(form.parameters(custom=False)))
    parameters = chosen.parameters()
    missing = [name for name in NEEDED if not parameters.get(name)]
    shown: Mapping[str, Any] = {}
    refused = ""
    if not missing:
        try:
            shown, refused = _planned(visit, parameters)
        except ApiRefused as error:
            refused = str(error)
    offering = next(
        (one for one in chosen.lists["offerings"] if one["id"] == parameters.get("serviceofferingid")), {}
    )
    count = str(parameters.get("virtualmachinecount") or "")
    return visit.page(
        "fragments/plan.html",
        limits=limits_after(visit.calls, chosen.form.of_owner(), offering, chosen.form.values, int(count))
        if shown and count.isdecimal() and {"listDomains", "listResourceLimits"} <= visit.may.keys()
        else (),
        plan=shown,
        spread=spread_of(shown),
        missing=missing,
        refused=refused,
        wrong={} if shown else wrong_fields(refused),
        fields=FIELDS,
        line=command_line(parameters, chosen.lists),
        call=f"command={COMMAND}&{urlencode(parameters)}",
    )


def _planned(visit: Visit, parameters: Mapping[str, str]) -> tuple[Mapping[str, Any], str]:
    """Return the plan, and a reason if the call would be rejected although there is a plan.

    If not all VMs fit, the plan contains the VMs that fit.

    Raises:
        ApiRefused: there is no plan at all.
    """
    try:
        return visit.calls(COMMAND, {**parameters, **DRY_RUN})["plan"], ""
    except ApiRefused as error:
        if error.status != INSUFFICIENT_CAPACITY:
            raise
        why = str(error)
    try:
        return visit.calls(COMMAND, {**parameters, **DRY_RUN, "minimumcount": 1})["plan"], why
    except ApiRefused:
        raise ApiRefused(INSUFFICIENT_CAPACITY, why) from None


def deploy(visit: Visit) -> Response:
    """Make the deploy call, and redirect to the page of the deployment.

    If the API rejects the call, the form is shown with the error next to the field that the error names.
    """
    chosen = choices(visit)
    token = visit.form.get("requesttoken", "")
    try:
        answer = visit.calls(COMMAND, {**chosen.parameters(), "requesttoken": token})
    except ApiRefused as error:
        text = str(error)
        return visit.page(
            "deploy.html", 422, choices=chosen, token=secrets.token_urlsafe(16), wrong=wrong_fields(text), text=text
        )
    jobs = next(value for value in answer.values() if isinstance(value, list))
    return Response(status=303, headers={"Location": address("deployment", id=jobs[0]["deploymentid"])})


def wrong_fields(text: str) -> dict[str, str]:
    """Return the error text by the field of the deploy form that the text names."""
    return wrong_field(text, {**{name: name for name in FIELDS}, **FIELD_OF})


VIEWS = MappingProxyType(
    {
        ("GET", "deploy"): form_page,
        ("POST", "deploy"): deploy,
        ("POST", "deploy-fields"): form_fields,
        ("POST", "deploy-plan"): plan,
    }
)
