"""The lookup of a job by its own id, or by the id or name of its VM."""

from collections.abc import Callable

from bulkdeploy.cli.connection.catalogue import Catalogue
from bulkdeploy.cli.connection.entities import Caller, rows_of
from bulkdeploy.cli.connection.naming import ID, resolve_names
from bulkdeploy.cli.failures import ApiRefused, UsageError

INVALID_PARAMETER = 431


def find_job_id(catalogue: Catalogue, call: Caller, word: str, print_message: Callable[[str], None]) -> str:
    """Return the id of the job that ``word`` names; for a VM, the id of its newest job.

    Args:
        catalogue: The commands of the API.
        call: A function that calls the API.
        word: The id of a job, or the id or name of a VM.
        print_message: A function that prints which id was found for a name.

    Raises:
        ApiRefused: No job and no VM that the user may see has this id.
        UsageError: No VM or several VMs have this name, or the VM's jobs are no longer stored.
    """
    vms = catalogue.get("listVirtualMachines")
    requested = {"id": word, "listall": "true"}
    if ID.fullmatch(word):
        try:
            call("queryAsyncJobResult", {"jobid": word})
        except ApiRefused as error:
            if error.errorcode != INVALID_PARAMETER:
                raise
            if vms is None or not rows_of(call(vms.name, requested)):
                error.hint = "No deployment, job or VM that this user may see has this id: see 'list asyncjobs'"
                raise
        else:
            return word
    elif vms is None:
        raise UsageError(
            f"{word!r} is not an id, and this API has no list of VMs in which the name could be found: give the id"
        )
    else:
        resolve_names(catalogue, vms, requested, call, print_message)
    by_vm = {"resourceid": requested["id"], "resourcetype": "VirtualMachine"}
    try:
        return str(call("queryAsyncJobResult", by_vm)["jobid"])
    except ApiRefused as error:
        if error.errorcode == INVALID_PARAMETER:
            raise UsageError(f"no job of the VM {word!r} is stored any more; see 'list virtualmachines'") from error
        raise
