"""What deploy calls say of disks and details in CloudStack's map parameters, and how a wrong value is reported."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.commands.deployments.conftest import TableChanges
from tests.commands.deployments.test_bulk_rules import refused
from tests.support.zones.zone_queries import Zone

Bulk = Callable[..., dict[str, Any]]
GIB = 1 << 30


def sizes(zone: Zone) -> dict[int, int]:
    """The GiB of each volume by its number in its VM."""
    return {row.device_id: row.size_bytes // GIB for row in zone.rows("SELECT device_id, size_bytes FROM volumes")}


def test_the_detail_for_the_root_disk_takes_precedence(bulk: Bulk, zone: Zone) -> None:
    """It says the same as the parameter of its name, and wins."""
    bulk(count=1, **{"details[0].rootdisksize": 30, "rootdisksize": 20})
    assert sizes(zone) == {0: 30}


@pytest.mark.parametrize("value", ["0", "-1", "2.5", "many", "99999999"])
def test_a_wrong_size_in_the_details_is_named(bulk: Bulk, nothing_written: TableChanges, value: str) -> None:
    """The error names the detail and its value, and nothing is deployed."""
    refused(
        bulk,
        431,
        "details[0].rootdisksize",
        value,
        "Root disk size should be a positive number",
        count=1,
        **{"details[0].rootdisksize": value},
    )
    assert nothing_written()


def test_data_disks_have_the_numbers_that_the_call_gives(bulk: Bulk, zone: Zone) -> None:
    """Disks without a number get the lowest free one; IOPS are accepted, as CloudStack accepts them."""
    disk, custom = (zone.id_of("disk_offerings", name) for name in ("20 GiB", "Custom"))
    bulk(
        count=1,
        **{
            "datadisksdetails[0].diskofferingid": disk,
            "datadisksdetails[0].deviceid": 2,
            "datadisksdetails[0].miniops": 100,
            "datadisksdetails[0].maxiops": 200,
            "datadisksdetails[1].diskofferingid": custom,
            "datadisksdetails[1].size": 7,
        },
    )
    assert {number: size for number, size in sizes(zone).items() if number} == {1: 7, 2: 20}


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("deviceid", "0", "deviceid"),
        ("deviceid", "x", "deviceid"),
        ("miniops", "-1", "miniops"),
        ("maxiops", "?", "maxiops"),
    ],
)
def test_wrong_fields_of_data_disks_are_named(
    bulk: Bulk, zone: Zone, nothing_written: TableChanges, field: str, value: str, word: str
) -> None:
    """The error names the parameter, the field and the value."""
    disk = {"datadisksdetails[0].diskofferingid": zone.id_of("disk_offerings", "20 GiB")}
    refused(bulk, 431, "datadisksdetails", word, value, count=1, **disk, **{f"datadisksdetails[0].{field}": value})
    assert nothing_written()


def test_two_disks_cannot_have_one_number(bulk: Bulk, zone: Zone) -> None:
    """The second use of a number is an error."""
    disk = zone.id_of("disk_offerings", "20 GiB")
    both = {f"datadisksdetails[{at}].diskofferingid": disk for at in (0, 1)}
    refused(
        bulk,
        431,
        "each deviceid can be given once",
        count=1,
        **both,
        **dict.fromkeys((f"datadisksdetails[{at}].deviceid" for at in (0, 1)), 1),
    )


@pytest.mark.parametrize("name", ["extraconfig", "extraconfig-1", "ExtraConfig"])
def test_details_carry_no_extra_configuration(bulk: Bulk, nothing_written: TableChanges, name: str) -> None:
    """As in CloudStack: the text names the detail."""
    refused(bulk, 431, f"details[0].{name}", "extraconfig", count=1, **{f"details[0].{name}": "x"})
    assert nothing_written()


def test_keyboards_are_those_of_cloudstack(bulk: Bulk) -> None:
    """Another one is an error that lists them."""
    bulk(count=1, keyboard="de-ch")
    refused(bulk, 431, "keyboard", "klingon", "de-ch", count=1, keyboard="klingon")


def test_errors_show_what_the_caller_wrote(bulk: Bulk, zone: Zone) -> None:
    """No error has the form of a program's object; missing values and the parameter that was given are named."""
    refused(bulk, 431, "Parameter size is missing", count=1, diskofferingid=zone.id_of("disk_offerings", "Custom"))
    refused(bulk, 431, "parameter keypairs:", count=1, keypairs="nobody")
    refused(bulk, 431, "parameter keypair:", count=1, keypair="nobody")
    refused(bulk, 431, "securitygroupnames", count=1, securitygroupnames="nobody")
