"""Reading back what a zone offers: offerings, templates and ISOs, networks with their ranges."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.inventory_catalog import DiskOffering, IpRange, Network, ServiceOffering, Template
from bulkdeploy.domain.topology import HypervisorType, StorageType, TemplateKind
from bulkdeploy.store.inventory.inventory_reading import LeftOut, Owners


class CatalogReader:
    """Reads what is offered in one zone; a name that two things have is kept for the older one."""

    def __init__(self, connection: Connection, zone_id: int, owners: Owners, left_out: LeftOut) -> None:
        self._connection, self._zone_id = connection, zone_id
        self._owners, self._left_out = owners, left_out

    def service_offerings(self) -> tuple[ServiceOffering, ...]:
        """The service offerings of the zone, by age."""
        return tuple(
            ServiceOffering(
                name=row.name,
                display_text=row.display_text,
                cpu_number=row.cpu_number,
                cpu_mhz=row.cpu_mhz,
                memory_mib=row.memory_mib,
                min_cpu_number=row.min_cpu_number,
                max_cpu_number=row.max_cpu_number,
                min_memory_mib=row.min_memory_mib,
                max_memory_mib=row.max_memory_mib,
                root_disk_gib=row.root_disk_gib,
                storage_type=StorageType(row.storage_type),
                storage_tags=tuple(row.storage_tags),
                host_tags=tuple(row.host_tags),
                planner=row.deployment_planner,
                offer_ha=row.offer_ha,
                limit_cpu_use=row.limit_cpu_use,
                dynamic_scaling=row.dynamic_scaling,
                network_rate=row.network_rate,
                domains=self._paths(row.domain_ids),
                zone_only=bool(row.zone_ids),
                details=row.details,
                state=row.state,
                sort_key=row.sort_key,
            )
            for row in self._offered("service_offerings", "service offering")
        )

    def disk_offerings(self) -> tuple[DiskOffering, ...]:
        """The disk offerings of the zone, by age."""
        return tuple(
            DiskOffering(
                name=row.name,
                display_text=row.display_text,
                disk_gib=row.disk_gib,
                customized=row.customized,
                storage_type=StorageType(row.storage_type),
                storage_tags=tuple(row.storage_tags),
                provisioning_type=row.provisioning_type,
                display_offering=row.display_offering,
                domains=self._paths(row.domain_ids),
                zone_only=bool(row.zone_ids),
                details=row.details,
                state=row.state,
                sort_key=row.sort_key,
            )
            for row in self._offered("disk_offerings", "disk offering")
        )

    def _offered(self, table: str, noun: str) -> list[Row[Any]]:
        """Offerings for everybody, or for a domain that still exists."""
        rows = self._rows(
            f"SELECT * FROM {table} WHERE removed IS NULL"  # noqa: S608 - our own names
            " AND (zone_ids = '{}' OR :zone = ANY(zone_ids)) ORDER BY id"
        )
        usable = [row for row in rows if not row.domain_ids or self._paths(row.domain_ids)]
        self._left_out.reasons += [
            f"{noun} {row.name!r} ({row.uuid}): the domains that it is for are gone"
            for row in rows
            if row not in usable
        ]
        return self._left_out.first_of_each(noun, usable, lambda row: row.name.lower())

    def templates(self) -> tuple[Template, ...]:
        """Templates and then ISOs of the zone, by age."""
        rows = self._rows(
            "SELECT t.*, o.name AS os_type, z.ready, z.status, ARRAY(SELECT p.account_id FROM"
            "   template_permissions p WHERE p.template_id = t.id ORDER BY p.account_id) AS shared"
            " FROM templates t JOIN template_zones z ON z.template_id = t.id AND z.zone_id = :zone"
            " LEFT JOIN os_types o ON o.id = t.os_type_id"
            " WHERE t.removed IS NULL ORDER BY t.kind = 'iso', t.id"
        )
        owned = [row for row in rows if self._is_owned(row, row.kind)]
        unique = self._left_out.first_of_each(
            "template", owned, lambda row: (row.kind, row.account_id, row.name.lower())
        )
        return tuple(self._template(row) for row in unique)

    def _template(self, row: Row[Any]) -> Template:
        hypervisor = None if row.hypervisor is None else HypervisorType.parse(row.hypervisor)
        return Template(
            kind=TemplateKind(row.kind),
            name=row.name,
            display_text=row.display_text,
            owner=self._owners.names[row.account_id],
            template_type=row.template_type,
            format=row.format,
            hypervisor=hypervisor,
            os_type=row.os_type,
            size_bytes=row.size_bytes,
            physical_size_bytes=row.physical_size_bytes,
            is_public=row.is_public,
            is_featured=row.is_featured,
            is_extractable=row.is_extractable,
            bootable=row.bootable,
            password_enabled=row.password_enabled,
            sshkey_enabled=row.sshkey_enabled,
            requires_hvm=row.requires_hvm,
            dynamically_scalable=row.dynamically_scalable,
            template_tag=row.template_tag,
            url=row.url,
            checksum=row.checksum,
            arch=row.arch,
            details=row.details,
            sort_key=row.sort_key,
            shared_with=tuple(self._owners.names[one] for one in row.shared if one in self._owners.names),
            ready=row.ready,
            status=row.status,
        )

    def networks(self, pods: Mapping[int, str]) -> tuple[Network, ...]:
        """The guest networks of the zone, by age; ``pods``: names by id."""
        rows = self._rows(
            "SELECT n.*, o.name AS offering, p.name AS physical_network FROM networks n"
            " JOIN network_offerings o ON o.id = n.network_offering_id"
            " LEFT JOIN physical_networks p ON p.id = n.physical_network_id AND p.removed IS NULL"
            " WHERE n.zone_id = :zone AND n.removed IS NULL AND NOT n.is_system ORDER BY n.id"
        )
        owned = [row for row in rows if self._is_owned(row, "network")]
        unique = self._left_out.first_of_each("network", owned, lambda row: row.name.lower())
        ranges = self._ranges(pods)
        return tuple(
            Network(
                name=row.name,
                display_text=row.display_text,
                offering=row.offering,
                owner=self._owners.names[row.account_id],
                acl_type=row.acl_type,
                domain=self._owners.paths[row.domain_id],
                subdomain_access=row.subdomain_access,
                physical_network=row.physical_network,
                cidr=row.cidr,
                gateway=row.gateway,
                vlan=row.vlan,
                network_domain=row.network_domain,
                is_default=row.is_default,
                ranges=tuple(ranges.get(row.id, ())),
            )
            for row in unique
        )

    def _ranges(self, pods: Mapping[int, str]) -> dict[int, list[IpRange]]:
        found: dict[int, list[IpRange]] = {}
        rows = self._rows(
            "SELECT r.network_id, host(r.start_ip) AS start_ip, host(r.end_ip) AS end_ip, r.gateway, r.netmask,"
            " r.vlan, r.pod_id FROM ip_ranges r JOIN networks n ON n.id = r.network_id"
            " WHERE n.zone_id = :zone AND r.removed IS NULL ORDER BY r.id"
        )
        for row in rows:
            one = IpRange(
                start_ip=row.start_ip,
                end_ip=row.end_ip,
                gateway=row.gateway,
                netmask=row.netmask,
                vlan=row.vlan,
                pod=pods.get(row.pod_id),
            )
            found.setdefault(row.network_id, []).append(one)
        return found

    def _is_owned(self, row: Row[Any], noun: str) -> bool:
        """Whether a file can name the owner; what the system owns is not described."""
        if row.account_id in self._owners.names:
            return True
        self._left_out.reasons.append(f"{noun} {row.name!r} ({row.uuid}): its owner is not described")
        return False

    def _paths(self, domain_ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._owners.paths[one] for one in domain_ids if one in self._owners.paths)

    def _rows(self, query: str) -> Sequence[Row[Any]]:
        return self._connection.execute(text(query), {"zone": self._zone_id}).all()
