"""SSH key pairs made, registered and deleted (reference section 8.12). Private keys are never kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.ssh_keys import fingerprint
from bulkdeploy.services.owned_entities import lock_own, named_entity
from bulkdeploy.services.ownership import NamedOwner, as_found_by_id, lock_owner
from bulkdeploy.store.accounts.owned_entities import insert_entity, mark_removed
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.listing import Paging
from bulkdeploy.store.virtual_machines import ssh_key_pairs

NOUN = "key pair"
RSA_BITS, RSA_EXPONENT = 2048, 65537


@dataclass(frozen=True, slots=True)
class KeyTexts:
    """A new key pair: ``public`` in OpenSSH's one-line form, ``private`` in PEM."""

    public: str
    private: str


def generate_key_pair() -> KeyTexts:
    """An RSA key pair; making it takes its time, so it is done before the transaction."""
    pair = rsa.generate_private_key(RSA_EXPONENT, RSA_BITS)
    public_key = pair.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    private_key = pair.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    return KeyTexts(public_key, private_key)


def create_ssh_key_pair(
    connection: Connection, caller: Caller, named: NamedOwner, name: str, keys: KeyTexts
) -> Mapping[str, Any]:
    """Keep the public key and answer the key pair with ``privatekey``, which is nowhere else from then on.

    Raises:
        InvalidParameter: the owner has a key pair of this name, or there is no such owner.
        InvalidCombination, PermissionDenied: as ``services.ownership.lock_owner``.
    """
    row = _write(connection, caller, named, name, keys.public, EventType.SSH_KEY_PAIR_CREATE)
    return {**row, "privatekey": keys.private}


def register_ssh_key_pair(
    connection: Connection, caller: Caller, named: NamedOwner, name: str, public_key: str
) -> Mapping[str, Any]:
    """Register a public key in OpenSSH's one-line form, and answer the key pair.

    Raises:
        InvalidParameter: the text is no public key, the owner has a key pair of this name, or there is no
            such owner.
        InvalidCombination, PermissionDenied: as ``services.ownership.lock_owner``.
    """
    return _write(connection, caller, named, name, public_key.strip(), EventType.SSH_KEY_PAIR_REGISTER)


def delete_ssh_key_pair(connection: Connection, caller: Caller, named: NamedOwner, name: str) -> None:
    """Delete the owner's key pair of this name; VMs that were made with it keep the public key.

    Raises:
        InvalidParameter: the owner has none of this name, or there is no such owner.
        PermissionDenied: the caller may not act for that owner.
    """
    ref = named_entity(connection, caller, Entity.SSH_KEY_PAIR, named, name, NOUN, "name")
    _, owner = lock_own(connection, caller, ref, NOUN, "name")
    mark_removed(connection, ref)
    text = f"deleted key pair {name}"
    record_event(connection, caller, EventType.SSH_KEY_PAIR_DELETE, text, _about(ref), owner)


def _write(
    connection: Connection, caller: Caller, named: NamedOwner, name: str, public_key: str, event_type: EventType
) -> Mapping[str, Any]:
    try:
        digest = fingerprint(public_key)
    except ValueError as error:
        # The text itself is not repeated: it may be a private key that was sent by mistake.
        shown = f"({len(public_key)} characters)"
        raise InvalidParameter(
            "publickey", shown, f"it should be one line such as 'ssh-ed25519 AAAA... comment': {error}"
        ) from None
    owner = lock_owner(connection, caller, named)
    ref = insert_entity(
        connection,
        Entity.SSH_KEY_PAIR,
        name=name,
        account_id=owner.account_id,
        public_key=public_key,
        fingerprint=digest,
    )
    if ref is None:
        raise InvalidParameter("name", name, f"A key pair with name '{name}' already exists.")
    record_event(connection, caller, event_type, f"added key pair {name}", _about(ref), owner)
    seen = as_found_by_id(connection, caller)
    return ssh_key_pairs.list_ssh_key_pairs(connection, seen, {"id": ref}, Paging(1)).rows[0]


def _about(ref: EntityRef) -> Instance:
    return Instance("SSHKeyPair", ref.id, ref.uuid)
