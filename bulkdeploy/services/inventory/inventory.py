"""Loading an inventory: a file is read, checked and written as a whole, or not at all."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError
from sqlalchemy import Connection, Engine

from bulkdeploy.domain.errors import InvalidInventory
from bulkdeploy.domain.inventory import Inventory
from bulkdeploy.services.inventory.inventory_file import read_inventory_file
from bulkdeploy.services.inventory.inventory_loading import write_inventory
from bulkdeploy.services.system import Cipher
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.inventory.inventory_staging import Changes, InventoryConflict


@dataclass(frozen=True, slots=True)
class LoadReport:
    """How many rows a load added and changed, by what they describe; both empty: it was all there."""

    zone: str
    added: Mapping[str, int]
    changed: Mapping[str, int]


class InventorySecrets:
    """Keys under the installation's cipher, passwords as argon2id hashes."""

    def __init__(self, cipher: Cipher) -> None:
        self._cipher, self._hasher = cipher, PasswordHasher()

    def encrypt(self, secret: str) -> bytes:
        """The secret, unreadable at rest."""
        return self._cipher.encrypt(secret)

    def decrypt(self, token: bytes) -> str:
        """The secret again."""
        return self._cipher.decrypt(token)

    def hash_password(self, password: str) -> str:
        """A hash with a salt of its own."""
        return self._hasher.hash(password)

    def is_password(self, password_hash: str, password: str) -> bool:
        """Whether the hash is of this password."""
        try:
            return self._hasher.verify(password_hash, password)
        except (VerifyMismatchError, InvalidHashError):
            return False


def load_inventory(engine: Engine, cipher: Cipher, path: Path) -> LoadReport:
    """Make the zone that a file describes true: what is missing is added, what differs is updated.

    One transaction. Loading a file twice changes nothing; what a file no longer mentions stays.

    Raises:
        InvalidInventory: the file breaks rules, or contradicts what the database has; nothing was written.
    """
    return store_inventory(engine, cipher, path.name, read_inventory_file(path))


def store_inventory(engine: Engine, cipher: Cipher, source: str, inventory: Inventory) -> LoadReport:
    """Load an inventory that was read already; ``source`` is what refusals call its origin.

    Raises:
        InvalidInventory: as ``load_inventory``.
    """
    secrets = InventorySecrets(cipher)

    def work(connection: Connection) -> Changes:
        return write_inventory(connection, inventory, secrets)

    try:
        changes = run_transaction(engine, work)
    except InventoryConflict as conflict:
        where = conflict.where
        place = f"{source}:{where.line}: {where.path}" if where.line else source
        raise InvalidInventory([f"{place}: {conflict.rule}"]) from conflict
    return LoadReport(inventory.zone.name, dict(changes.added), dict(changes.changed))
