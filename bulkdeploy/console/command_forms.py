"""Forms of commands, with a field for each settable parameter, and the calls that they send (one file: both)."""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from werkzeug.datastructures import MultiDict

from bulkdeploy.cli.connection.catalogue import Api, ApiParameter
from bulkdeploy.console.calls import ApiRefused, Row
from bulkdeploy.console.nouns import BY_LIST, Noun
from bulkdeploy.console.visit import Visit

MOST_OPTIONS = 500
"""Things that a field offers; where there are more, their id is typed."""
AS_A_NAME = 3
"""Columns that tell things without names apart: the id and what follows it."""
LONG_TEXT = 1000
NUMBERS = ("integer", "long", "short", "float")
OWNER = ("account", "domainid", "projectid")
LEFT_OUT = frozenset(
    {"fordisplay", "displayvolume", "displaynetwork", "displayvm", "displayoffering"}
    | {"projectid", "autoselect", "dryrun", "planindex"}
)
"""Parameters that say nothing here, the project, whose things are changed by their ids, and plans."""
ENCODED = "userdata"
"""The parameter that takes base64; people write text."""
RESOURCE_TYPE = "resourcetype"
"""The parameter that takes the number of a limited resource; people choose its name."""
WORD = re.compile(r"[A-Za-z]+")
HOST_OF_MOVE = ("migrateVirtualMachine", "hostid")
"""The command and parameter whose choices are the hosts that the VM could move to."""
NEEDED_FOR_HOSTS = frozenset({"findHostsForMigration", "listDeploymentPlanners"})
"""Commands without which that parameter is an ordinary field."""
OF_OWNER = frozenset(
    {"listVolumes", "listVMSnapshot", "listAffinityGroups", "listSecurityGroups", "listSSHKeyPairs"}
    | {"listUserData", "listInstanceGroups", "listVirtualMachines"}
)
"""List commands of things that go only with things of the same owner."""
FITTING: Mapping[tuple[str, str], Mapping[str, object]] = MappingProxyType(
    {("attachVolume", "id"): {"type": "DATADISK", "attached": False}, ("attachIso", "id"): {"isready": True}}
)
"""Parameters of the list command by which a field offers fewer things, by command and parameter of the form."""
DESTINATION = ("name", "clustername", "memoryallocatedpercentage", "cpuallocatedwithoverprovisioning")
"""Fields of a host by which it is chosen."""
DANGEROUS = ("delete", "destroy", "remove", "disable", "lock", "expunge", "suspend", "revoke", "revert")
"""Beginnings of commands whose button warns."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form.

    Attributes:
        kind: the type of the control: text, number, secret, area, choice or many.
        value: the initial value.
        options: pairs of a value that can be chosen and its text.
        chosen: the values that are selected at first.
        refused: the values that cannot be chosen: the reason, the remedy, and the names of the objects.
        advice: the reason why an option is preselected.
    """

    name: str
    kind: str
    hint: str
    required: bool
    value: str = ""
    options: Sequence[tuple[str, str]] = ()
    chosen: frozenset[str] = field(default_factory=frozenset)
    refused: Sequence[tuple[str, str, Sequence[str]]] = ()
    advice: str = ""


def subject_of(api: Api, noun: Noun) -> ApiParameter | None:
    """Return the parameter of a command that takes the id of a noun's object.

    Returns None if the command has no such parameter.
    """
    found = [one for one in api.parameters if noun.ids_from in one.related]
    return next((one for one in found if one.name == "id"), found[0] if found else None)


def _kind_of_subject(api: Api, noun: Noun) -> dict[str, str]:
    """Return the parameter with the type of the object, for commands that work on objects of several types.

    Returns an empty dict for other commands.
    """
    subject, kind = subject_of(api, noun), api.parameter(RESOURCE_TYPE)
    if subject is None or kind is None or subject.type != "list" or len(kind.choices) != len(subject.related):
        return {}
    return {kind.name: kind.choices[subject.related.index(noun.ids_from)]}


def fields_of_form(api: Api, noun: Noun, row: Row, visit: Visit) -> list[FormField]:
    """Return the fields of a command's form, filled in with the present values of its object.

    Args:
        api: the command, with the parameters that the user may set.
        noun: the noun on whose page the form is.
        row: the object's row from its list command. Empty if the form creates an object; then the URL has the
            values.
        visit: the request. After a rejected call, it contains the submitted form.
    """
    subject = subject_of(api, noun) if row else None
    sent = visit.request.form if visit.request.method == "POST" else None
    known = {subject.name, *_kind_of_subject(api, noun)} if subject else set()
    if row and noun.name_parameter and not subject:
        row = {**row, noun.name_parameter: row[noun.shown[0]]}
    return [
        _host_field(api, one, row, sent, visit)
        if (api.name, one.name) == HOST_OF_MOVE and row and visit.may.keys() >= NEEDED_FOR_HOSTS
        else _field(api, one, row, sent, visit)
        for one in sorted(api.parameters, key=lambda one: not one.required)
        if one.name not in known and one.name not in LEFT_OUT
    ]


def call_of_form(api: Api, noun: Noun, row: Row, form: MultiDict[str, str]) -> dict[str, str]:
    """Return the parameters of the call that a filled-in form sends.

    An update command gets only changed values and required parameters.
    """
    subject = subject_of(api, noun) if row else None
    given = {} if subject is None else {subject.name: str(row[noun.key]), **_kind_of_subject(api, noun)}
    changes = bool(row) and api.name.startswith("update")
    for one in api.parameters:
        values = [value.strip() for value in form.getlist(one.name) if value.strip()]
        if one.name in given or not values:
            continue
        is_kept = not one.required and one.name not in OWNER and ",".join(values) == _known(row, one)
        if changes and is_kept:
            continue
        given |= _sent(one, values)
    if row.get("projectid") and api.parameter("projectid") is not None:
        given = {name: value for name, value in given.items() if name not in OWNER}
        given["projectid"] = str(row["projectid"])
    return given


def wrong_field(text: str, fields: Mapping[str, str]) -> dict[str, str]:
    """Return the error text by the form field of the first parameter that the text names.

    Returns an empty dict if the text names no parameter of the form.

    Args:
        text: the error of the API.
        fields: the field of each parameter.
    """
    known = {parameter.lower(): field for parameter, field in fields.items()}
    found = next((known[word.lower()] for word in WORD.findall(text) if word.lower() in known), None)
    return {} if found is None else {found: text}


def is_dangerous(command: str) -> bool:
    """Return whether a command deletes, stops or removes something, according to its name."""
    return command.startswith(DANGEROUS)


def _field(api: Api, one: ApiParameter, row: Row, sent: MultiDict[str, str] | None, visit: Visit) -> FormField:
    known = _known(row, one) if row else visit.given.get(one.name, "")
    values = [known] if sent is None else sent.getlist(one.name)
    chosen = frozenset(part for value in values for part in value.split(",") if part)
    options = tuple(_options(api, one, row, visit))
    kind = _control(one, with_options=bool(options))
    hint = visit.pages.texts.deploy.userdata_hint if one.name == ENCODED else one.description
    return FormField(one.name, kind, hint, one.required, ",".join(values), options, chosen)


def _host_field(api: Api, one: ApiParameter, row: Row, sent: MultiDict[str, str] | None, visit: Visit) -> FormField:
    """Return the form field for the destination host of a VM that moves.

    The options are the hosts that can run the VM, and the planner's choice is preselected. The field also explains
    the planner's choice and why the other hosts cannot run the VM.
    """
    vm = {"virtualmachineid": row["id"]}
    try:
        rows = visit.calls.rows("findHostsForMigration", {**vm, "page": 1, "pagesize": MOST_OPTIONS})
        (move,) = visit.calls("migrateVirtualMachine", {**vm, "dryrun": True})["plan"]["move"]
    except ApiRefused:  # a VM that does not run cannot be migrated; the API's error is ignored here
        return _field(api, one, row, sent, visit)
    texts, planned = visit.pages.texts, str(move.get("hostid", ""))
    fitting = [host for host in rows if host.get("suitableformigration")]
    fitting.sort(key=lambda host: (host["id"] != planned, _promised_memory(host)))
    refused: dict[tuple[str, str], list[str]] = {}
    for host in rows:
        if not host.get("suitableformigration"):
            reason = str(host.get("text") or host.get("reason") or ""), str(host.get("remedy") or "")
            refused.setdefault(reason, []).append(str(host["name"]))
    options = [
        (str(host["id"]), texts.things.destination(**{name: host.get(name, "") for name in DESTINATION}))
        for host in fitting
    ]
    if planned and planned not in dict(options):  # there are more hosts than options
        options.insert(0, (planned, str(move["hostname"])))
    return FormField(
        one.name,
        "choice",
        one.description,
        one.required,
        options=options,
        chosen=frozenset({planned} if sent is None else sent.getlist(one.name)),
        refused=[(text, remedy, names) for (text, remedy), names in refused.items()],
        advice=_advice(move, visit),
    )


def _promised_memory(host: Row) -> float:
    return float(str(host.get("memoryallocatedpercentage", "0")).rstrip("%"))


def _advice(move: Row, visit: Visit) -> str:
    """Return the text with the host that the planner chose for a move and how, or why it found no host."""
    texts = visit.pages.texts
    if not move.get("hostid"):
        return str(texts.things.no_destination(why=move.get("errortext", "")))
    planner = str(move.get("planner", ""))
    known = {row["name"]: row["description"] for row in visit.calls.rows("listDeploymentPlanners")}
    return str(texts.things.planned(host=move["hostname"], planner=planner, how=known.get(planner, "")))


def _control(one: ApiParameter, *, with_options: bool) -> str:
    if with_options:
        return "many" if one.type == "list" else "choice"
    if one.type in NUMBERS:
        return "number"
    if "password" in one.name and one.type == "string":
        return "secret"
    if one.type == "map":
        return "entries"
    return "area" if one.length > LONG_TEXT else "text"


def _options(api: Api, one: ApiParameter, row: Row, visit: Visit) -> Iterator[tuple[str, str]]:
    if one.type == "boolean":
        texts = visit.pages.texts
        yield from (("true", texts.flags.true), ("false", texts.flags.false))
    elif one.choices:
        yield from ((word, word) for word in one.choices)
    elif one.name == RESOURCE_TYPE and one.type in NUMBERS:
        yield from visit.pages.texts.resource_types.items()
    elif one.related == ("listNics",):
        for nic in row.get("nic") or ():
            yield (
                str(nic["id"]),
                " · ".join(str(nic[name]) for name in ("networkname", "ipaddress") if nic.get(name)),
            )
    elif one.names_entities and one.related:
        noun = BY_LIST.get(one.related[0])
        if noun is not None and noun.lists in visit.may:
            yield from _options_of_noun(noun, _fitting(api, one, noun, row, visit), visit)


def _fitting(api: Api, one: ApiParameter, noun: Noun, row: Row, visit: Visit) -> dict[str, object]:
    """Return the list parameters that limit a field's options to objects that fit the form's object.

    The options are in the same zone and, unless the command names an owner itself, belong to the same owner.
    """
    fitting = dict(FITTING.get((api.name, one.name), {}))
    if row.get("zoneid") and visit.may[noun.lists].parameter("zoneid") is not None:
        fitting["zoneid"] = row["zoneid"]
    if noun.lists in OF_OWNER and api.parameter("account") is None:
        names = ("projectid",) if row.get("projectid") else ("account", "domainid")
        owner = {name: row[name] for name in names if row.get(name)}
        fitting |= {"projectid": "", **owner} if owner else {}
    return fitting


def _options_of_noun(noun: Noun, fitting: Mapping[str, object], visit: Visit) -> Iterator[tuple[str, str]]:
    """Yield the ids and names of a noun's objects as options.

    Yields nothing if there are more than MOST_OPTIONS.
    """
    rows, count = visit.calls.page(noun.lists, {**noun.given, **fitting, "page": 1, "pagesize": MOST_OPTIONS})
    if count > MOST_OPTIONS:
        return
    for row in rows:
        names = [row.get(name) for name in noun.shown[: 1 if noun.shown[0] != "id" else AS_A_NAME]]
        words = (*names, _size_of_disks(row, visit), row.get("zonename"))
        yield str(row["id"]), " · ".join(str(word) for word in words if word)


def _size_of_disks(row: Row, visit: Visit) -> str:
    """Return the disk size of a disk offering as text. Empty for other objects."""
    if "disksize" not in row:
        return ""
    texts = visit.pages.texts
    return str(texts.things.custom_size) if row.get("iscustomized") else f"{row['disksize']} GiB"


def _known(row: Row, one: ApiParameter) -> str:
    """Return the present value of a parameter as form text. Empty if the object does not have the value."""
    value = row.get(one.name)
    if value is None or isinstance(value, (list, dict)):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sent(one: ApiParameter, values: Sequence[str]) -> dict[str, str]:
    """Return a parameter in the format of an API call. Each line of a map's text becomes one entry."""
    if one.type != "map":
        text = ",".join(values)
        return {one.name: base64.b64encode(text.encode()).decode() if one.name == ENCODED else text}
    sent: dict[str, str] = {}
    for index, line in enumerate(part for value in values for part in value.splitlines() if part.strip()):
        for pair in line.split(","):
            name, _, value = (part.strip() for part in pair.partition("="))
            if one.name == "tags":
                sent |= {f"tags[{index}].key": name, f"tags[{index}].value": value}
            else:
                sent[f"{one.name}[{index}].{name}"] = value
    return sent
