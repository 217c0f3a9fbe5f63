"""The contract of drivers that report storage units."""

import pytest

from bulkdeploy.drivers.abilities.storage_units import StorageUnit, StorageUnits
from bulkdeploy.drivers.contract_suites.subjects import AbilityContract, Caller, Rig
from bulkdeploy.drivers.errors import DriverError


class StorageUnitContract(AbilityContract, of=StorageUnits):
    """The contract that storage units are reported per host, and that reading them changes nothing."""

    def test_the_unit_of_a_pool_is_known(self, rig: Rig, caller: Caller) -> None:
        """The unit that stores a guest's volumes is healthy, allocatable and assigned to its pool.

        Used and free space add up to the size, and names are unique.
        """
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        first, *_ = looks = StorageUnits.of(rig.driver).look_at_storage(rig.hosts, timeout_s=caller.timeout_s)
        assert len(looks) == len(rig.hosts)
        assert not isinstance(first, DriverError)
        assert len({(unit.unit_type, unit.name) for unit in first}) == len(first)
        for unit in first:
            assert min(unit.used_bytes, unit.free_bytes) >= 0
            assert unit.used_bytes + unit.free_bytes == unit.size_bytes
        (of_pool,) = (unit for unit in first if unit.pool_uuid == guest.volumes[0].pool_uuid)
        assert of_pool.is_healthy
        assert of_pool.is_allocatable
        again = StorageUnits.of(rig.driver).units_of_host(rig.hosts[0], timeout_s=caller.timeout_s)
        assert [unit.name for unit in again] == [unit.name for unit in first]

    def test_allocation_is_not_stopped_where_it_can_not_be(self, rig: Rig, caller: Caller) -> None:
        """Stopping allocation on a unit of an unknown type is a permanent error."""
        unit = StorageUnit("floppy", "a:", 1, 0, 1)
        with pytest.raises(DriverError) as refused:
            StorageUnits.of(rig.driver).set_allocatable(
                rig.hosts[0], unit, allocatable=False, timeout_s=caller.timeout_s
            )
        assert not refused.value.transient
