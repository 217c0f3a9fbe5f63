"""The bulkmonkey command line that makes the same bulk call as the deploy form."""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from bulkdeploy.cli.connection.naming import ID
from bulkdeploy.console.calls import Row

NAMED_BY: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "zoneid": ("zones", "id", "name"),
        "serviceofferingid": ("offerings", "id", "name"),
        "templateid": ("templates", "id", "name"),
        "networkids": ("networks", "id", "name"),
        "securitygroupids": ("security_groups", "id", "name"),
        "affinitygroupids": ("affinity_groups", "id", "name"),
        "diskofferingid": ("disks", "id", "name"),
        "userdataid": ("user_data", "id", "name"),
        "podid": ("pods", "id", "name"),
        "clusterid": ("clusters", "id", "name"),
        "projectid": ("projects", "id", "name"),
        "domainid": ("accounts", "domainid", "domain"),
    }
)
"""The list of choices whose rows have the ids of a parameter, and the fields of the id and the name."""
NO_NAME = re.compile(f"^({ID.pattern})$|,")
"""Names that bulkmonkey would take for ids or for several names."""


def lists_of_names(parameters: Collection[str]) -> set[str]:
    """Return the names of the lists that are needed to replace the ids in these parameters by names."""
    return {NAMED_BY[name][0] for name in parameters if name in NAMED_BY}


def command_line(parameters: Mapping[str, str], lists: Mapping[str, Sequence[Row]]) -> str:
    """Return the bulkmonkey command line of the same call. Bulkmonkey accepts names where the API needs ids."""
    words = [shlex.quote(f"{name}={_in_names(name, value, lists)}") for name, value in parameters.items()]
    return " ".join(["bulkmonkey", "bulk", "deployvirtualmachine", *words])


def _in_names(parameter: str, value: str, lists: Mapping[str, Sequence[Row]]) -> str:
    """Return the value of a parameter with its ids replaced by names. An id stays if its name is not unique."""
    if parameter not in NAMED_BY:
        return value
    choices_of, id_field, name_field = NAMED_BY[parameter]
    named = {(str(row[id_field]), str(row[name_field])) for row in lists.get(choices_of, ())}
    names = dict(named)
    uses = Counter(name.lower() for _, name in named)
    return ",".join(
        names[one] if one in names and uses[names[one].lower()] == 1 and not NO_NAME.search(names[one]) else one
        for one in value.split(",")
    )
