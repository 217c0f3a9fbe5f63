"""Secondary addresses of NICs, and changes of first addresses.

Callers that change addresses have locked the network's ranges (``lock_ranges``) and the VM.
"""

from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from bulkdeploy.store.ledger.addresses import Address, give_back
from bulkdeploy.store.tables.networks import nic_secondary_ips, nics


def read_nic(connection: Connection, nic_id: int) -> Row[Any] | None:
    """Return the row of a live NIC, or None if there is no such NIC."""
    return connection.execute(select(nics).where(nics.c.id == nic_id, nics.c.removed.is_(None))).first()


def read_secondary_ip(connection: Connection, ip_id: int) -> Row[Any] | None:
    """Return the row of a secondary address, or None if there is no such address."""
    return connection.execute(select(nic_secondary_ips).where(nic_secondary_ips.c.id == ip_id)).first()


def count_secondary_ips(connection: Connection, nic_id: int) -> int:
    """Return the number of secondary addresses of a NIC."""
    one = nic_secondary_ips.c
    return connection.execute(select(func.count()).where(one.nic_id == nic_id)).scalar_one()


def insert_secondary_ip(connection: Connection, nic: Row[Any], address: Address) -> Row[Any]:
    """Add a secondary address to a NIC, and return the internal id and uuid of the address."""
    made = insert(nic_secondary_ips).values(
        nic_id=nic.id, network_id=nic.network_id, ip_range_id=address.range_id, ip_address=address.ip
    )
    return connection.execute(made.returning(nic_secondary_ips.c.id, nic_secondary_ips.c.uuid)).one()


def delete_secondary_ip(connection: Connection, ip: Row[Any]) -> None:
    """Remove a secondary address from its NIC, and release the address."""
    connection.execute(delete(nic_secondary_ips).where(nic_secondary_ips.c.id == ip.id))
    give_back(connection, ip.ip_range_id, str(ip.ip_address))


def change_address(connection: Connection, nic: Row[Any], address: Address, *, is_requested: bool) -> None:
    """Replace the first address of a NIC, and release the old one.

    ``is_requested`` tells whether a caller chose the new address.
    """
    values = {
        "ip_range_id": address.range_id,
        "ip_address": address.ip,
        "gateway": address.gateway,
        "netmask": address.netmask,
        "has_requested_ip": is_requested,
    }
    connection.execute(update(nics).where(nics.c.id == nic.id).values(**values))
    if nic.ip_address is not None:
        give_back(connection, nic.ip_range_id, str(nic.ip_address))
