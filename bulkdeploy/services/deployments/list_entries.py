"""Errors about one entry of a call's list. The errors name the entry in the format of a parameter."""

from collections.abc import Iterator
from contextlib import contextmanager

from bulkdeploy.domain.deployments.deployment import DeployCall, DeployRequest
from bulkdeploy.domain.errors import (
    EmptyParameter,
    InvalidCombination,
    InvalidParameter,
    MalformedMap,
    MalformedValue,
    MissingParameter,
    ParameterError,
    PermissionDenied,
    UnknownEntity,
)

OF_THE_CALL = frozenset(
    {
        "zoneid",
        "account",
        "domainid",
        "projectid",
        "virtualmachinecount",
        "requesttoken",
        "dryrun",
        "planindex",
        "partial",
        "startvm",
    }
)
"""Parameters that stand beside the list, and are said once for all its entries."""


@contextmanager
def entry_of(call: DeployCall, request: DeployRequest) -> Iterator[None]:
    """Add the first entry of the request to errors that are raised in the block, if the call has a list."""
    if not call.listed:
        yield
        return
    with named_entry(request.vms[0].entry):
        yield


@contextmanager
def named_entry(number: int) -> Iterator[None]:
    """Add the number of an entry to errors that are raised inside the block."""
    try:
        yield
    except (ParameterError, PermissionDenied) as error:
        raise _in(f"virtualmachines[{number}]", error) from error


def _in(entry: str, error: ParameterError | PermissionDenied) -> ParameterError | PermissionDenied:
    if getattr(error, "parameter", None) in OF_THE_CALL:
        return error
    match error:
        case MissingParameter():
            return MissingParameter(error.command, f"{entry}.{error.parameter}")
        case EmptyParameter():
            return EmptyParameter(f"{entry}.{error.parameter}")
        case MalformedValue():
            return MalformedValue(error.command, f"{entry}.{error.parameter}", error.value, error.rule)
        case UnknownEntity():
            return UnknownEntity(error.command, f"{entry}.{error.parameter}", error.value)
        case MalformedMap():
            return MalformedMap(f"{entry}.{error.parameter}", error.rule)
        case InvalidParameter():
            return InvalidParameter(f"{entry}.{error.parameter}", error.value, error.rule)
        case InvalidCombination():
            return InvalidCombination(
                [name if name in OF_THE_CALL else f"{entry}.{name}" for name in error.parameters],
                f"{entry}: {error.rule}",
            )
        case PermissionDenied():
            return PermissionDenied(f"{entry}: {error}")
    return error
