"""Database implementations of the protocols in ``drivers.records`` (one file: one class for each protocol)."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, Engine, Row
from sqlalchemy.exc import OperationalError

from bulkdeploy.domain.accounts.accounts import ACCOUNT_TYPE_NAMES, AccountType
from bulkdeploy.domain.errors import ResourceLimitExceeded, ResourceUnavailable
from bulkdeploy.domain.networks.addresses import GivenNic
from bulkdeploy.domain.networks.security_group_rules import Rule
from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.hosts import HostAddress, address_of
from bulkdeploy.drivers.records import (
    CopyState,
    Counterpart,
    FencedGuest,
    GuestOrder,
    HostDeclaredOffError,
    Overtaken,
    Pool,
    Records,
    TemplateCopy,
    TemplateImage,
)
from bulkdeploy.security.guarded_fetch import Fetcher, FetchRules
from bulkdeploy.store.database.engine import one_statement, read_only, run_transaction
from bulkdeploy.store.hypervisors import (
    cluster_turns,
    counterparts,
    directory,
    guest_fences,
    image_sizes,
    orders,
    security_rules,
    template_copies,
)
from bulkdeploy.wiring.cipher import SecretKeyWrong


def records_in(
    engine: Engine,
    serves: Callable[[str], bool],
    fetcher: Fetcher | None = None,
    decrypt: Callable[[bytes], str] | None = None,
) -> Records:
    """Return the records for a driver that serves the hypervisor types for which ``serves`` returns True.

    Without ``fetcher``, images are fetched by the default rules. Without ``decrypt``, the secrets of pools cannot
    be read.
    """
    return Records(
        _Directory(engine, serves, decrypt),
        _Fences(engine),
        _TemplateCopies(engine),
        _Orders(engine),
        _Counterparts(engine, serves),
        _SecurityRules(engine),
        _ClusterTurns(engine),
        fetcher or Fetcher(FetchRules()),
    )


class _Directory:
    def __init__(
        self, engine: Engine, serves: Callable[[str], bool], decrypt: Callable[[bytes], str] | None
    ) -> None:
        self._engine, self._serves, self._decrypt = engine, serves, decrypt

    def hosts(self) -> Sequence[HostAddress]:
        with read_only(self._engine) as connection:
            return self._hosts(directory.hosts(connection))

    def hosts_of_pool(self, pool_uuid: UUID) -> Sequence[HostAddress]:
        with read_only(self._engine) as connection:
            return self._hosts(directory.hosts(connection, pool_uuid))

    def closed_hosts(self) -> Sequence[HostAddress]:
        with read_only(self._engine) as connection:
            return self._hosts(directory.closed_hosts(connection))

    def caller(self, user_id: int) -> Mapping[str, str]:
        with read_only(self._engine) as connection:
            row = directory.caller(connection, user_id)
        if row is None:
            return {}
        return {
            "id": str(row.uuid),
            "name": row.name,
            "type": ACCOUNT_TYPE_NAMES[AccountType(row.account_type)],
            "roleid": str(row.role_uuid),
            "rolename": row.role_name,
            "roletype": row.role_type,
        }

    def _hosts(self, rows: Sequence[Row[Any]]) -> list[HostAddress]:
        return [address_of(row) for row in rows if self._serves(row.hypervisor)]

    def pools(self) -> Sequence[Pool]:
        with read_only(self._engine) as connection:
            return self._pools(directory.pools(connection))

    def pools_of_host(self, host_uuid: UUID) -> Sequence[Pool]:
        with read_only(self._engine) as connection:
            return self._pools(directory.pools(connection, host_uuid))

    def pools_of_volumes(self, volume_uuids: Collection[UUID]) -> Sequence[Pool]:
        with read_only(self._engine) as connection:
            return self._pools(directory.pools_of_volumes(connection, volume_uuids))

    def _pools(self, rows: Sequence[Row[Any]]) -> list[Pool]:
        return [self._pool(row) for row in rows if row.hypervisor is not None and self._serves(row.hypervisor)]

    def _pool(self, row: Row[Any]) -> Pool:
        read_secret = None
        if row.secret_encrypted is not None and self._decrypt is not None:
            read_secret = partial(_decrypt_secret, self._decrypt, row.name, row.secret_encrypted)
        return Pool(
            row.uuid,
            row.name,
            row.pool_type,
            row.ip_address,
            row.path,
            row.host_uuid,
            row.capacity_bytes,
            row.user_name,
            read_secret,
        )

    def hardware_of_cluster(self, host_uuid: UUID) -> frozenset[str | None]:
        with read_only(self._engine) as connection:
            return directory.hardware_of_cluster(connection, host_uuid)

    def template(self, template_uuid: UUID) -> TemplateImage | None:
        with read_only(self._engine) as connection:
            row = directory.template(connection, template_uuid)
        if row is None:
            return None
        is_of_root_admin = row.account_type == AccountType.ADMIN
        return TemplateImage(
            row.uuid, row.name, row.url, row.format, row.checksum, row.size_bytes, is_of_root_admin=is_of_root_admin
        )


def _decrypt_secret(decrypt: Callable[[bytes], str], pool_name: str, encrypted: bytes) -> str:
    """Return the decrypted secret of a pool.

    Raises:
        DriverError: another key encrypted the secret.
    """
    try:
        return decrypt(encrypted)
    except SecretKeyWrong as error:
        reason = (
            f"the secret of pool {pool_name} cannot be decrypted:"
            " the setting secret_key is not the key that encrypted the secret"
        )
        raise DriverError("volume", ANY_HOST, reason, transient=False) from error


class _Fences:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def raise_fence(self, guest_uuid: UUID, fence: int) -> FencedGuest:
        return run_transaction(self._engine, lambda connection: _raised(connection, guest_uuid, fence))

    def claim(
        self, guest_uuid: UUID, host_uuid: UUID, volume_uuids: Collection[UUID], fence: int
    ) -> tuple[FencedGuest, frozenset[UUID]]:
        with one_statement(self._engine) as connection:
            row = guest_fences.claim(connection, guest_uuid, host_uuid, volume_uuids, fence)
        if row is None:
            raise Overtaken(guest_uuid, fence)
        if row.host_uuid is None and not row.taken:
            raise HostDeclaredOffError(host_uuid)
        return _fenced(row), frozenset(row.taken)

    def highest(self, guest_uuid: UUID) -> int:
        with one_statement(self._engine) as connection:
            return guest_fences.highest(connection, guest_uuid)

    def is_highest(self, guest_uuid: UUID, fence: int) -> bool:
        with one_statement(self._engine) as connection:
            return guest_fences.is_highest(connection, guest_uuid, fence)

    def move(self, guest_uuid: UUID, host_uuid: UUID, destination_uuid: UUID | None, fence: int) -> None:
        def move(connection: Connection) -> bool:
            return guest_fences.move(connection, guest_uuid, host_uuid, destination_uuid, fence)

        if not run_transaction(self._engine, move):
            raise Overtaken(guest_uuid, fence)

    def store_details(self, guest_uuid: UUID, details: Mapping[str, Any], fence: int) -> None:
        def store(connection: Connection) -> bool:
            return guest_fences.store_details(connection, guest_uuid, details, fence)

        if not run_transaction(self._engine, store):
            raise Overtaken(guest_uuid, fence)

    def guests_with_details(self) -> Mapping[UUID, FencedGuest]:
        with read_only(self._engine) as connection:
            return {row.guest_uuid: _fenced(row) for row in guest_fences.guests_with_details(connection)}

    def guests_with(self, details: Mapping[str, Any]) -> Mapping[UUID, FencedGuest]:
        with read_only(self._engine) as connection:
            return {row.guest_uuid: _fenced(row) for row in guest_fences.with_details(connection, details)}

    def release(self, guest_uuid: UUID, fence: int) -> None:
        run_transaction(self._engine, lambda connection: guest_fences.release(connection, guest_uuid, fence))

    @contextmanager
    def volumes_in_use(self, volume_uuids: Collection[UUID]) -> Iterator[dict[UUID, UUID]]:
        with self._engine.begin() as connection:
            yield guest_fences.lock_volumes(connection, volume_uuids)


def _raised(connection: Connection, guest_uuid: UUID, fence: int) -> FencedGuest:
    row = guest_fences.raise_fence(connection, guest_uuid, fence)
    if row is None:
        raise Overtaken(guest_uuid, fence)
    return _fenced(row)


def _fenced(row: Row[Any]) -> FencedGuest:
    return FencedGuest(row.host_uuid, row.destination_uuid, row.details or {})


class _TemplateCopies:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, template_uuid: UUID, pool_uuid: UUID, checksum: str | None = None) -> int | None:
        with read_only(self._engine) as connection:
            return template_copies.find(connection, template_uuid, pool_uuid, checksum or "")

    def begin(self, template_uuid: UUID, pool_uuid: UUID, checksum: str | None = None) -> TemplateCopy:
        def begin(connection: Connection) -> TemplateCopy:
            begun = template_copies.begin(connection, template_uuid, pool_uuid, checksum or "")
            if begun is not None:
                return TemplateCopy(begun.attempt, CopyState.TO_MAKE, 0, range(begun.first_attempt, begun.attempt))
            row = template_copies.state(connection, template_uuid, pool_uuid)
            is_ready = row.ready and row.checksum == (checksum or "")
            return TemplateCopy(row.attempt, CopyState.READY if is_ready else CopyState.UNDER_WAY, row.percent)

        return run_transaction(self._engine, begin)

    def admit(self, template_uuid: UUID, pool_uuid: UUID, file_bytes: int, disk_bytes: int) -> str | None:
        def admit(connection: Connection) -> None:
            image_sizes.admit(connection, template_uuid, pool_uuid, file_bytes, disk_bytes)

        try:
            run_transaction(self._engine, admit)
        except (ResourceLimitExceeded, ResourceUnavailable) as error:
            return str(error)
        return None

    def report(self, template_uuid: UUID, pool_uuid: UUID, attempt: int, percent: int) -> bool:
        def report(connection: Connection) -> bool:
            return template_copies.report(connection, template_uuid, pool_uuid, attempt, percent=percent)

        return run_transaction(self._engine, report)

    def end(self, template_uuid: UUID, pool_uuid: UUID, attempt: int, *, made: bool) -> bool:
        percent = 100 if made else 0

        def end(connection: Connection) -> bool:
            is_latest = template_copies.report(
                connection, template_uuid, pool_uuid, attempt, percent=percent, ready=made, failed=not made
            )
            if is_latest and not made:
                image_sizes.release(connection, template_uuid, pool_uuid)
            return is_latest

        return run_transaction(self._engine, end)


class _Orders:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def order(self, guest_uuid: UUID) -> GuestOrder | None:
        with read_only(self._engine) as connection:
            row = orders.order(connection, guest_uuid)
        if row is None:
            return None
        return GuestOrder(
            row.zone_uuid,
            row.offering_uuid,
            frozenset(row.custom_sizes),
            row.template_uuid,
            row.hypervisor,
            row.root_bytes,
            row.owner,
            row.domain_uuid,
            row.project_uuid,
            row.display_name,
            tuple(row.security_group_uuids),
            row.key_pairs,
            {UUID(volume): UUID(offering) for volume, offering in row.disk_offerings.items()},
            frozenset(row.custom_disks),
            tuple(row.affinity_group_uuids),
        )

    def known_guests(self, guest_uuids: Collection[UUID]) -> frozenset[UUID]:
        with read_only(self._engine) as connection:
            return orders.known_guests(connection, guest_uuids)

    def known_volumes(self, volume_uuids: Collection[UUID]) -> frozenset[UUID]:
        with read_only(self._engine) as connection:
            return orders.known_volumes(connection, volume_uuids)


class _Counterparts:
    def __init__(self, engine: Engine, serves: Callable[[str], bool]) -> None:
        self._engine, self._serves = engine, serves

    def read(self, uuid: UUID) -> Counterpart | None:
        with read_only(self._engine) as connection:
            row = counterparts.find_counterpart(connection, uuid)
        return None if row is None else Counterpart(row.attempt, row.root_uuid)

    def record(self, uuid: UUID, root_uuid: UUID | None = None) -> Counterpart:
        row = run_transaction(
            self._engine, lambda connection: counterparts.record_counterpart(connection, uuid, root_uuid)
        )
        return Counterpart(row.attempt, row.root_uuid)

    def begin_next_attempt(self, uuid: UUID, attempt: int) -> None:
        run_transaction(self._engine, lambda connection: counterparts.begin_next_attempt(connection, uuid, attempt))

    def write_addresses(self, uuid: UUID, nics: Sequence[GivenNic]) -> None:
        run_transaction(
            self._engine, lambda connection: counterparts.write_addresses(connection, uuid, nics, self._serves)
        )

    def guest_of_root(self, root_uuid: UUID) -> UUID | None:
        with read_only(self._engine) as connection:
            return counterparts.guest_of_root(connection, root_uuid)

    def all(self) -> Mapping[UUID, Counterpart]:
        with read_only(self._engine) as connection:
            rows = counterparts.all_noted(connection)
        return {row.uuid: Counterpart(row.attempt, row.root_uuid) for row in rows}


class _SecurityRules:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of(self, guest_uuids: Collection[UUID]) -> Mapping[UUID, frozenset[Rule]]:
        with read_only(self._engine) as connection:
            return security_rules.rules_of(connection, guest_uuids)


class _ClusterTurns:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def turn(self, cluster: str, *, timeout_s: float) -> Iterator[None]:
        with read_only(self._engine) as connection:
            try:
                cluster_turns.take_turn(connection, cluster, timeout_s)
            except OperationalError as error:
                if not isinstance(error.orig, LockNotAvailable):
                    raise
                raise TimeoutError(f"others had locked cluster {cluster} for {timeout_s:.0f} s") from error
            yield
