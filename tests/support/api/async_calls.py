"""Calls that change things, and what they answer when all is done."""

from typing import Any

import pytest

from tests.support.api.api_client import ApiFailure
from tests.support.zones.world import World


def change(world: World, command: str, by: str, **parameters: object) -> dict[str, Any]:
    """The object that a call answers, of its job where it makes one; ``{"success": True}`` of those without."""
    body = world.client(by).call(command, **parameters)
    if "jobid" in body:
        job = world.client(by).call("queryAsyncJobResult", jobid=body["jobid"])
        assert (job["jobstatus"], job["jobresultcode"], job["jobresulttype"]) == (1, 0, "object")
        name = job["cmd"].rpartition(".")[2].removesuffix("ByAdmin")
        assert name.lower() == f"{command.replace('VirtualMachine', 'VM')}Cmd".lower()
        result: dict[str, Any] = job["jobresult"]
        if "id" in body:
            assert next(iter(result.values()))["id"] == body["id"] == job["jobinstanceid"]
        body = result
    if "success" in body:
        return body
    ((_, inner),) = body.items()
    return dict(inner)


def refusal(world: World, command: str, by: str, **parameters: object) -> ApiFailure:
    """How a call is refused."""
    with pytest.raises(ApiFailure) as caught:
        world.client(by).call(command, **parameters)
    return caught.value
