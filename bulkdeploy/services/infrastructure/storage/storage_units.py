"""Storage units of hosts: list, exclude from new data, and repair (docs/how-to/storage-units.md).

Units are not stored in the database: each call queries the hypervisors.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.domain.infrastructure.topology import PoolScope
from bulkdeploy.drivers.abilities.storage_units import StorageRepair, StorageUnit, StorageUnits
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import address_of
from bulkdeploy.drivers.registry import Drivers
from bulkdeploy.services.abilities import has_ability, require_ability
from bulkdeploy.services.infrastructure.storage.storage_pools import update_pools
from bulkdeploy.store.accounts.callers import default_admin
from bulkdeploy.store.infrastructure.storage import storage_units as store
from bulkdeploy.store.infrastructure.storage.storage_pools import UP

Reading = Callable[[], AbstractContextManager[Connection]]
"""Opens a connection for reading; none is open while hypervisors are asked, which takes long."""

Writing = Callable[[Callable[[Connection], None]], None]
"""Runs what it is given in a transaction."""

NAMED = 10
"""Names that a message gives at most."""


@dataclass(frozen=True, slots=True)
class SeenUnit:
    """A storage unit of a host with its pool.

    If the host could not be queried, ``unit`` is None and ``problem`` has the reason.
    """

    host: Row[Any]
    unit: StorageUnit | None = None
    pool: Row[Any] | None = None
    problem: str | None = None

    @property
    def is_allocatable(self) -> bool:
        """True if new data may be placed on the unit. Both the hypervisor and the pool must allow it."""
        return self.unit is not None and self.unit.is_allocatable and (self.pool is None or self.pool.state == UP)

    @property
    def is_healthy(self) -> bool:
        """Return whether the unit can be used. A unit of a host that does not respond is not healthy."""
        return self.unit is not None and self.unit.is_healthy


def storage_units_of(
    reading: Reading, drivers: Drivers, hosts: Sequence[Row[Any]], *, timeout_s: float
) -> list[SeenUnit]:
    """Return the storage units of these hosts, host by host.

    Hosts whose driver does not report storage units are left out.
    """
    able = [host for host in hosts if has_ability(drivers, host.hypervisor, StorageUnits)]
    answers: dict[UUID, Sequence[StorageUnit] | DriverError] = {}
    for hypervisor in dict.fromkeys(host.hypervisor for host in able):
        addresses = [address_of(host) for host in able if host.hypervisor == hypervisor]
        driver = StorageUnits.of(drivers.driver_for(hypervisor))
        looks = driver.look_at_storage(addresses, timeout_s=timeout_s)
        answers |= {host.uuid: answer for host, answer in zip(addresses, looks, strict=True)}
    uuids = {
        unit.pool_uuid
        for answer in answers.values()
        if not isinstance(answer, DriverError)
        for unit in answer
        if unit.pool_uuid is not None
    }
    with reading() as connection:
        pools = store.pools(connection, uuids)
    seen: list[SeenUnit] = []
    for host in able:
        answer = answers[host.uuid]
        if isinstance(answer, DriverError):
            seen.append(SeenUnit(host, problem=str(answer)))
            continue
        units = sorted(answer, key=lambda unit: (unit.unit_type, unit.name))
        seen += [
            SeenUnit(host, unit, None if unit.pool_uuid is None else pools.get(unit.pool_uuid)) for unit in units
        ]
    return seen


def find_storage_unit(
    reading: Reading, drivers: Drivers, host: Row[Any], unit_type: str, name: str, *, timeout_s: float
) -> SeenUnit:
    """Return one storage unit of a host.

    Raises:
        InvalidParameter: the host's driver does not support storage units, the host does not respond, or it has no
            unit of this type and name.
    """
    require_ability(drivers, host.hypervisor, StorageUnits, "host", host.name)
    seen = storage_units_of(reading, drivers, [host], timeout_s=timeout_s)
    for one in seen:
        if one.unit is None:
            raise InvalidParameter("host", host.name, str(one.problem))
        if (one.unit.unit_type, one.unit.name) == (unit_type, name):
            return one
    known = ", ".join(f"{one.unit.unit_type} {one.unit.name}" for one in seen if one.unit) or "none"
    raise InvalidParameter("name", name, f"it must be a unit of type {unit_type} of the host, which has: {known}")


def set_allocatable(
    writing: Writing, drivers: Drivers, seen: SeenUnit, *, allocatable: bool, timeout_s: float
) -> None:
    """Allow or forbid new data on a storage unit. Existing data stays there and remains in use.

    If the unit is the pool of its host's own disks, this pool is disabled or enabled (as by ``updateStoragePool``),
    which placement respects. If the unit is no pool, the hypervisor changes the unit.

    Raises:
        InvalidParameter: the unit is a pool that other hosts also use, or a pool in maintenance.
        DriverError: the hypervisor cannot change the unit.
    """
    host, unit, pool = seen.host, seen.unit, seen.pool
    assert unit is not None  # noqa: S101 - find gives units
    if pool is None:
        driver = StorageUnits.of(drivers.driver_for(host.hypervisor), "storage", address_of(host))
        driver.set_allocatable(address_of(host), unit, allocatable=allocatable, timeout_s=timeout_s)
        return
    if pool.scope != PoolScope.HOST:
        rule = (
            f"it is pool {pool.name}, which other hosts reach, too:"
            " stop the pool (updateStoragePool enabled=false), or the host (updateHost allocationstate=Disable)"
        )
        raise InvalidParameter("name", unit.name, rule)
    ref = EntityRef(Entity.STORAGE_POOL, pool.id, pool.uuid, pool.name)

    def change(connection: Connection) -> None:
        update_pools(connection, default_admin(connection), [(ref, {"enabled": allocatable})])

    writing(change)


def repair(reading: Reading, drivers: Drivers, seen: SeenUnit, *, dry_run: bool = False, timeout_s: float) -> None:
    """Repair a storage unit without its lost parts, if no volume loses data by the repair.

    All other copies of the data must be healthy: if several hosts share the pool, these are the hosts' units of the
    pool. A host's own disks have no other copy, so there must be no volumes on them. The pool must be disabled, so
    that no volume is created meanwhile. The driver checks guests that have no row.

    Raises:
        InvalidParameter: the host's driver does not support repairs.
        ResourceInUse: there is no other healthy copy of a volume's data, or new volumes may be created in the pool.
        DriverError: the hypervisor failed or rejected the repair.
    """
    host, unit, pool = seen.host, seen.unit, seen.pool
    assert unit is not None  # noqa: S101 - find gives units
    require_ability(drivers, host.hypervisor, StorageRepair, "host", host.name)
    if pool is not None:
        _check_other_holders(reading, drivers, host, unit, pool, timeout_s)
    if not dry_run:
        driver = StorageRepair.of(drivers.driver_for(host.hypervisor), "storage", address_of(host))
        driver.repair_unit(address_of(host), unit, timeout_s=timeout_s)


def _check_other_holders(
    reading: Reading, drivers: Drivers, host: Row[Any], unit: StorageUnit, pool: Row[Any], timeout_s: float
) -> None:
    refused = f"{unit.unit_type} {unit.name} of host {host.name} is not repaired: "
    if pool.state == UP:
        raise ResourceInUse(f"{refused}pool {pool.name} must be Disabled (updateStoragePool enabled=false)")
    with reading() as connection:
        users = store.users_of_pool(connection, pool.id)
        others = [other for other in store.hosts_of_pool(connection, pool.id) if other.id != host.id]
    if not users:
        return
    named_users = f"{', '.join(users[:NAMED])}{', ...' if len(users) > NAMED else ''}"
    who = f"{len(users)} VM(s) or detached volume(s) ({named_users})"
    if not others:
        raise ResourceInUse(f"{refused}the data of {who} exists nowhere else; move or remove these first")
    seen = storage_units_of(reading, drivers, others, timeout_s=timeout_s)
    holders = [one for one in seen if one.unit is None or one.unit.pool_uuid == pool.uuid]
    broken = [one for one in holders if not one.is_healthy]
    if broken or not holders:
        named = ", ".join(one.problem or f"host {one.host.name}" for one in broken[:NAMED]) or "no host tells of it"
        raise ResourceInUse(f"{refused}the data of {who} is not healthy elsewhere: {named}")
