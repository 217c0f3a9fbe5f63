"""The check whether a running VM may grow on its host, by the rules that depend on sizes and tags."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row

from bulkdeploy.placement.capacity import HostAnswers
from bulkdeploy.placement.model import Purpose, ZoneSnapshot
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.scheduling.place import zone_as_seen
from bulkdeploy.scheduling.virtual_machine import need_of
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.ledger.placed_vms import offering_host_tags, read_vm


def why_not_grow(connection: Connection, vm_id: int, sizes: Mapping[str, Any]) -> str | None:
    """Return the reason why a running VM cannot get these sizes on its host, or None if it can.

    ``sizes`` has the new values of the VM's columns. Capacity is checked again when the claim is changed.
    """
    row = read_vm(connection, vm_id)
    configuration = read_configuration(connection)
    owner = owners_by_id(connection, [row.account_id])[row.account_id]
    need = replace(
        need_of(configuration, row, owner, (), ()),
        purpose=Purpose.GROW,
        host_id=row.host_id,
        cpu_number=sizes["cpu_number"],
        cpu_mhz=sizes["cpu_mhz"],
        memory_mib=sizes["memory_mib"],
        host_tags=offering_host_tags(connection, sizes["service_offering_id"])
        | ({row.template_tag} if row.template_tag else set()),
    )
    snapshot, request = zone_as_seen(connection, configuration, need, count=1, seed=0, lock=False)
    answers = HostAnswers(_without_claim(snapshot, row), request, placement_catalog())
    return answers.of([row.host_id])[0].reason


def _without_claim(snapshot: ZoneSnapshot, vm: Row[Any]) -> ZoneSnapshot:
    """Return the zone without the claim of the VM."""
    hosts = snapshot.hosts
    here = hosts.id == vm.host_id
    return replace(
        snapshot,
        hosts=replace(
            hosts,
            cpu_used=np.where(here, hosts.cpu_used - vm.cpu_number * vm.cpu_mhz, hosts.cpu_used),
            memory_used=np.where(here, hosts.memory_used - vm.memory_mib, hosts.memory_used),
        ),
    )
