"""createConsoleEndpoint: returns the URL of a VM's console for a browser or a terminal."""

from typing import Any
from urllib.parse import urlencode, urlsplit

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import flag, text
from bulkdeploy.declare.responses import Field, FieldType, Response, Shape
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.drivers.abilities.consoles import ConsoleKind
from bulkdeploy.services.virtual_machines import guest_consoles

PAGE, SOCKET = "/console/vnc", "client/console"
DEFAULT_PORTS = {"https": 443, "http": 80}

ENDPOINT = Response(
    "consoleendpoint",
    (
        flag("success", "true: the endpoint was created"),
        text("url", "the URL of a web page that shows the screen; absent for a serial console"),
        Field(
            "websocket",
            FieldType.OBJECT,
            "the address of the WebSocket of the console",
            (
                text("token", "the token that opens the WebSocket once, within 60 seconds"),
                text("host", "the host name of the API, as used by the caller"),
                text("port", "the port of the API"),
                text("path", "the path of the WebSocket; token and extra are sent as query parameters"),
                text("extra", "the additional token from the call"),
            ),
        ),
    ),
)


def create_endpoint(call: Call) -> dict[str, Any]:
    """Create a console token, and return it with the URLs at which it can be used."""
    kind = ConsoleKind(call.text("consoletype") or ConsoleKind.VNC)
    extra = call.text("token") or ""
    vm = call.arguments[guest_consoles.VM]
    token = guest_consoles.new_token(call.connection, call.system, call.caller, vm, kind, extra)
    secrets = {"token": token, **({"extra": extra} if extra else {})}
    origin = urlsplit(call.origin)
    port = origin.port or DEFAULT_PORTS.get(origin.scheme)
    found = {"host": origin.hostname, "port": None if port is None else str(port), "path": SOCKET, **secrets}
    # A browser does not send the part after "#", so no proxy writes the token into a log.
    page = f"{call.origin}{PAGE}#{urlencode(secrets)}" if kind is ConsoleKind.VNC else None
    return {"success": True, "url": page, "websocket": found}


COMMANDS: tuple[Command, ...] = (
    Command(
        name="createConsoleEndpoint",
        authorized=EVERY_ROLE,
        description="Opens the console of a running virtual machine for one viewer, within 60 seconds",
        since="4.18.0",
        handler=create_endpoint,
        shape=Shape.OBJECT,
        response=ENDPOINT,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid(guest_consoles.VM, Entity.VIRTUAL_MACHINE, "the VM", required=True),
            string("token", "an additional text that the client must send when it connects"),
            string(
                "consoletype",
                "the type of console: vnc (the screen; default) or serial",
                choices=tuple(kind.value for kind in ConsoleKind),
            ),
        ),
    ),
)
