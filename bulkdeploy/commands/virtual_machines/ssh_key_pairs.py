"""listSSHKeyPairs, createSSHKeyPair, registerSSHKeyPair and deleteSSHKeyPair."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import by_id_or_name, visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.noun import Noun
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, OWNER_FIELDS, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.services.ownership import as_found_by_id
from bulkdeploy.services.virtual_machines import ssh_key_pairs as service
from bulkdeploy.store.accounts.owned_entities import owned_reader
from bulkdeploy.store.accounts.owner_keys import owned_key
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.virtual_machines import ssh_key_pairs

SSH_KEY_PAIR = Response(
    "sshkeypair",
    (
        text("id", "the key pair"),
        text("name", "the name of the key pair"),
        text("fingerprint", "the fingerprint of its public key"),
        *OWNER_FIELDS,
        HAS_ANNOTATIONS,
    ),
)


def list_ssh_key_pairs(call: Call) -> Page:
    """Return the SSH key pairs of the visible accounts. Private keys are never stored.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    return ssh_key_pairs.list_ssh_key_pairs(call.connection, visible(call), call.arguments, paging(call))


def generate_keys(_: Call) -> service.KeyTexts:
    """Generate an SSH key pair, before the transaction of createSSHKeyPair."""
    return service.generate_key_pair()


def create_ssh_key_pair(call: Call, keys: service.KeyTexts) -> Mapping[str, Any]:
    """Store a generated key pair, and return the key pair with its private key, which is not stored."""
    given = {**call.arguments, "publickey": keys.public}
    event_type = EventType.SSH_KEY_PAIR_CREATE
    (pair,) = service.register_ssh_key_pairs(call.connection, call.caller, [given], event_type)
    return {**_row(call, pair), "privatekey": keys.private}


def register_ssh_key_pair(call: Call) -> Mapping[str, Any]:
    """Register a public SSH key, and return the key pair."""
    (pair,) = service.register_ssh_key_pairs(call.connection, call.caller, [call.arguments])
    return _row(call, pair)


def _row(call: Call, pair: EntityRef) -> Mapping[str, Any]:
    seen = as_found_by_id(call.connection, call.caller)
    return only_row(ssh_key_pairs.list_ssh_key_pairs(call.connection, seen, {"id": pair}, ONE))


def delete_ssh_key_pair(call: Call) -> None:
    """Delete an SSH key pair."""
    pair = by_id_or_name(call, Entity.SSH_KEY_PAIR, service.NOUN)
    service.delete_ssh_key_pairs(call.connection, call.caller, [pair])


REGISTER = Command(
    name="registerSSHKeyPair",
    description="Registers a public key under a name",
    handler=register_ssh_key_pair,
    shape=Shape.OBJECT,
    response=Response("keypair", SSH_KEY_PAIR.fields),
    errors=(PermissionDenied,),
    changes_state=True,
    parameters=(
        string(
            "name", "the name, unique among the objects of this type that the owner has", required=True, rule=NAME
        ),
        string("publickey", "the public key, in OpenSSH's format of one line", required=True, length=5120),
        *FOR_OWNER,
    ),
)

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
    Command(
        name="createSSHKeyPair",
        description="Creates an RSA key pair. Only this response contains the private key, which is not stored.",
        handler=create_ssh_key_pair,
        prepare=generate_keys,
        shape=Shape.OBJECT,
        response=Response("keypair", (*SSH_KEY_PAIR.fields, text("privatekey", "the private key, in PEM format"))),
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            string(
                "name",
                "the name, unique among the objects of this type that the owner has",
                required=True,
                rule=NAME,
            ),
            *FOR_OWNER,
        ),
    ),
    REGISTER,
    Command(
        name="deleteSSHKeyPair",
        description="Deletes a key pair. VMs that were deployed with it keep the public key",
        handler=delete_ssh_key_pair,
        shape=Shape.SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(string("name", "the name of the key pair", required=True), *FOR_OWNER),
    ),
)

NOUNS = (
    Noun(
        section="sshkeypairs",
        entity=Entity.SSH_KEY_PAIR,
        create=REGISTER,
        create_many=service.register_ssh_key_pairs,
        update=REGISTER,
        update_many=service.replace_public_keys,
        read=owned_reader(Entity.SSH_KEY_PAIR, ssh_key_pairs.FIELDS),
        key=owned_key,
        compare={"account": str.lower, "publickey": str.strip},
    ),
)
