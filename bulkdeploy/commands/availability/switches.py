"""Commands that enable or disable a feature for a host, or for all hosts of a cluster or a zone."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.parameters import uuid
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity

PLACES = (
    ("Host", "hostid", Entity.HOST, "a host"),
    ("Cluster", "clusterid", Entity.CLUSTER, "all hosts of a cluster"),
    ("Zone", "zoneid", Entity.ZONE, "all hosts of a zone"),
)


SetEnabled: TypeAlias = Callable[..., JobTicket]
"""A service function with the parameters connection, caller, place and ``enabled``. Its job has already ended."""


def switch_commands(
    noun: str,
    title: str,
    since: str,
    set_enabled: SetEnabled,
    response: Response,
    *,
    answers_success_of_many: bool = False,
) -> Iterator[Command]:
    """Yield ``enableNOUNForHost``, ``...ForCluster``, ``...ForZone``, and the same with ``disable``.

    Args:
        noun: the part of the commands' names.
        title: the feature that is enabled or disabled, for descriptions.
        since: the first version of CloudStack that has the commands.
        set_enabled: the service function.
        response: the object in the job's result.
        answers_success_of_many: whether, for clusters and zones, the job's result contains only its success, as in
            CloudStack.
    """
    for verb in ("enable", "disable"):
        for place, parameter, entity, what in PLACES:
            answers_success = answers_success_of_many and entity is not Entity.HOST
            yield Command(
                name=f"{verb}{noun}For{place}",
                description=f"{verb.capitalize()}s {title} for {what}",
                since=since,
                handler=partial(_switch, set_enabled=set_enabled, parameter=parameter, enabled=verb == "enable"),
                shape=Shape.JOB_SUCCESS if answers_success else Shape.JOB,
                response=None if answers_success else response,
                roles=ROOT_ADMIN_ONLY,
                authorized=ROOT_ADMIN_ONLY,
                changes_state=True,
                parameters=(uuid(parameter, entity, f"the {place.lower()}", required=True),),
            )


def _switch(call: Call, *, set_enabled: SetEnabled, parameter: str, enabled: bool) -> JobTicket:
    return set_enabled(call.connection, call.caller, call.arguments[parameter], enabled=enabled)
