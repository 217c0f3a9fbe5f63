"""listSSHKeyPairs."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import OWNER_FIELDS, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.store import ssh_key_pairs
from bulkdeploy.store.listing import Page

SSH_KEY_PAIR = Response(
    "sshkeypair",
    (
        text("id", "the key pair"),
        text("name", "its name"),
        text("fingerprint", "the fingerprint of its public key"),
        *OWNER_FIELDS,
    ),
)


def list_ssh_key_pairs(call: Call) -> Page:
    """SSH key pairs; private keys are never kept.

    Raises:
        PermissionDenied: an owner parameter names somebody outside the caller's reach.
    """
    return ssh_key_pairs.list_ssh_key_pairs(call.connection, visible(call), call.arguments, paging(call))


COMMANDS = (
    Command(
        name="listSSHKeyPairs",
        description="Lists SSH key pairs",
        handler=list_ssh_key_pairs,
        shape=Shape.LIST,
        response=SSH_KEY_PAIR,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.SSH_KEY_PAIR, "only this key pair"),
            string("name", "only key pairs of this name"),
            string("fingerprint", "only key pairs of this fingerprint"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
    ),
)
