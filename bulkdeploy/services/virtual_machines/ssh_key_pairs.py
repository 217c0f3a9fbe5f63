"""Operations on SSH key pairs: create, register and delete. Private keys are never stored."""

from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from sqlalchemy import Connection

from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines.ssh_keys import fingerprint
from bulkdeploy.services.live_entities import deleted_events
from bulkdeploy.services.owned_entities import lock_all_own
from bulkdeploy.services.ownership import lock_owners
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import NameTaken, change_rows, insert_rows, remove_rows

NOUN, KIND = "key pair", "SSHKeyPair"
RSA_BITS, RSA_EXPONENT = 2048, 65537


@dataclass(frozen=True, slots=True)
class KeyTexts:
    """A new key pair: ``public`` in OpenSSH's one-line form, ``private`` in PEM."""

    public: str
    private: str


def generate_key_pair() -> KeyTexts:
    """Generate an RSA key pair. This is slow, so it runs before the transaction."""
    pair = rsa.generate_private_key(RSA_EXPONENT, RSA_BITS)
    public_key = pair.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    private_key = pair.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    return KeyTexts(public_key, private_key)


def register_ssh_key_pairs(
    connection: Connection,
    caller: Caller,
    batch: Sequence[Arguments],
    event_type: EventType = EventType.SSH_KEY_PAIR_REGISTER,
) -> list[EntityRef]:
    """Register public keys, which are given in the one-line format of OpenSSH.

    Raises:
        InvalidParameter: a text is not a public key, an owner already has a key pair with the name, or there is no
            such owner.
        InvalidCombination, PermissionDenied: under the same conditions as ``services.ownership.lock_owner``.
    """
    keys = [_public_key(given["publickey"]) for given in batch]
    owners = lock_owners(connection, caller, batch)
    rows = [
        {"name": given["name"], "account_id": owner.account_id, **key}
        for given, owner, key in zip(batch, owners, keys, strict=True)
    ]
    try:
        made = insert_rows(connection, Entity.SSH_KEY_PAIR, rows)
    except NameTaken as taken:
        name = batch[0]["name"]
        raise InvalidParameter("name", name, f"A key pair with name '{name}' already exists.") from taken
    record_events(
        connection,
        caller,
        (
            Happened(event_type, f"added key pair {ref.name}", _key_pair_reference(ref), owner)
            for ref, owner in zip(made, owners, strict=True)
        ),
    )
    return made


def replace_public_keys(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Replace the public keys of key pairs. VMs that were deployed with a key pair keep their old public key.

    Raises:
        InvalidParameter: a text is not a public key, or a key pair was deleted.
        PermissionDenied: the caller may not access one of the key pairs.
    """
    refs = [ref for ref, _ in changes]
    happened = [
        Happened(
            EventType.SSH_KEY_PAIR_REGISTER,
            f"replaced the public key of key pair {row.name}",
            _key_pair_reference(ref),
            owner,
        )
        for ref, (row, owner) in zip(refs, lock_all_own(connection, caller, refs, NOUN), strict=True)
    ]
    change_rows(connection, [(ref, _public_key(given["publickey"])) for ref, given in changes])
    record_events(connection, caller, happened)


def delete_ssh_key_pairs(connection: Connection, caller: Caller, pairs: Sequence[EntityRef]) -> None:
    """Delete key pairs. VMs that were deployed with them keep the public keys.

    Raises:
        InvalidParameter: one of the key pairs was deleted.
        PermissionDenied: the caller may not access one of the key pairs.
    """
    owners = [owner for _, owner in lock_all_own(connection, caller, pairs, NOUN, "name")]
    remove_rows(connection, pairs)
    record_events(connection, caller, deleted_events(EventType.SSH_KEY_PAIR_DELETE, KIND, pairs, owners))


def _public_key(given: str) -> dict[str, str]:
    public_key = given.strip()
    try:
        return {"public_key": public_key, "fingerprint": fingerprint(public_key)}
    except ValueError as error:
        # The text itself is not repeated: it may be a private key that was sent by mistake.
        shown = f"({len(public_key)} characters)"
        raise InvalidParameter(
            "publickey", shown, f"it must be one line such as 'ssh-ed25519 AAAA... comment': {error}"
        ) from None


def _key_pair_reference(ref: EntityRef) -> Instance:
    return Instance(KIND, ref.id, ref.uuid)
