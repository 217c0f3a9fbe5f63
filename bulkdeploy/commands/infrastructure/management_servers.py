"""listManagementServers: the service as one server, whatever its number of processes is."""

import platform
from functools import cache
from urllib.parse import urlsplit

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import boolean, string
from bulkdeploy.declare.response_fields import constant, number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.compatibility import CLOUDSTACK_VERSION, MANAGEMENT_SERVER, MANAGEMENT_SERVER_ID
from bulkdeploy.store.infrastructure.management_servers import work_of_service
from bulkdeploy.store.rows.listing import Page, cut_page


def list_management_servers(call: Call) -> Page:
    """Return one row for the whole service, which is Up because it responds. Processes are not listed."""
    row = {"id": MANAGEMENT_SERVER_ID, "name": MANAGEMENT_SERVER, "state": "Up", "version": CLOUDSTACK_VERSION}
    same = all((call.text(field) or row[field]).lower() == row[field] for field in ("id", "name", "version"))
    found = same and (call.text("keyword") or "").lower() in MANAGEMENT_SERVER
    system = {
        "ipaddress": urlsplit(call.origin).hostname,
        "osdistribution": _distribution(),
        "kernelversion": platform.release(),
    }
    return cut_page([{**row, **system, **work_of_service(call.connection)}] if found else [], paging(call))


@cache
def _distribution() -> str:
    """Return the name of the operating system on which this process runs."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


COMMANDS: tuple[Command, ...] = (
    Command(
        name="listManagementServers",
        description="Lists the whole service as one management server. Its processes are not listed one by one",
        handler=list_management_servers,
        shape=Shape.LIST,
        response=Response(
            "managementserver",
            (
                text("id", "the management server"),
                text("name", "the name of the management server"),
                text("state", "Up"),
                text("ipaddress", "the address or the name by which the caller reaches the service"),
                text("version", "the version of CloudStack whose API the service implements"),
                text("osdistribution", "the operating system of the process that answered the call"),
                text("kernelversion", "the kernel of the machine that answered the call"),
                number("agentscount", "the number of hosts that are Up"),
                number("pendingjobscount", "the number of unfinished jobs"),
                constant("agents", (), "hosts run no agent"),
                constant("peers", (), "processes of the service are not listed one by one"),
            ),
        ),
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            string("id", "only the server with this id"),
            string("name", "only the server with this name"),
            string("version", "only servers with this version"),
            boolean(
                "peers",
                "accepted but ignored: processes of the service are not listed one by one, so there are no peers",
            ),
            *PAGING,
        ),
    ),
)
