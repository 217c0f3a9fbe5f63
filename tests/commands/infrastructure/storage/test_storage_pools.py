"""Storage pools: made, changed, put into maintenance and deleted by calls."""

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import text

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.driver_records import records_in
from tests.support.zones.infrastructure_calls import Cloud

GIB = 1024**3


@pytest.fixture(scope="module")
def place(cloud: Cloud) -> dict[str, str]:
    """A cluster's place, as createStoragePool takes it."""
    cluster = cloud.cluster(cloud.pod(cloud.zone()["id"]))
    return {"zoneid": cluster["zoneid"], "podid": cluster["podid"], "clusterid": cluster["id"]}


def test_a_pool_of_a_cluster_lives_and_goes(cloud: Cloud, place: dict[str, str]) -> None:
    """Its size is what the driver sees; it is changed, put into maintenance, and only then deleted."""
    pool = cloud.make(
        "createStoragePool", name="fast", url="nfs://10.0.0.9/a?size_gib=7", tags="ssd, raid", **place
    )
    assert (pool["scope"], pool["type"], pool["state"], pool["tags"]) == (
        "CLUSTER", "NetworkFilesystem", "Up", "ssd,raid",
    )  # fmt: skip
    assert (pool["ipaddress"], pool["path"], pool["disksizetotal"]) == ("10.0.0.9", "/a", 7 * GIB)
    changed = cloud.make(
        "updateStoragePool", id=pool["id"], name="slow", tags="", enabled="false", capacitybytes=GIB
    )
    assert (changed["name"], changed["state"], changed["disksizetotal"]) == ("slow", "Disabled", GIB)
    assert "tags" not in changed
    assert "Maintenance" in cloud.refused("deleteStoragePool", id=pool["id"]).errortext
    assert "not in maintenance" in cloud.refused("cancelStorageMaintenance", id=pool["id"]).errortext
    assert cloud.make("enableStorageMaintenance", id=pool["id"])["state"] == "Maintenance"
    assert "Maintenance" in cloud.refused("updateStoragePool", id=pool["id"], enabled="true").errortext
    assert cloud.make("cancelStorageMaintenance", id=pool["id"])["state"] == "Up"
    cloud.make("enableStorageMaintenance", id=pool["id"])
    cloud.done("deleteStoragePool", id=pool["id"])
    assert cloud.rows("listStoragePools", id=pool["id"]) == []


def test_a_pool_of_a_zone_is_reached_by_one_hypervisor(cloud: Cloud, place: dict[str, str]) -> None:
    """Scope ZONE is the default without a cluster; the size may be given."""
    pool = cloud.make(
        "createStoragePool",
        zoneid=place["zoneid"],
        name="all",
        url="rbd://ceph/pool",
        hypervisor="kvm",
        capacitybytes=5,
    )
    assert (pool["scope"], pool["hypervisor"], pool["type"], pool["disksizetotal"]) == ("ZONE", "KVM", "RBD", 5)
    cloud.done("deleteStoragePool", id=pool["id"], forced="true")


def test_a_pool_with_volumes_stays(cloud: Cloud, place: dict[str, str]) -> None:
    """Neither forced nor made too small while something is promised of it."""
    pool = cloud.make("createStoragePool", name="full", url="nfs://10.0.0.9/full", **place)
    claim = "INSERT INTO storage_claims SELECT gen_random_uuid(), id, 8 FROM storage_pools WHERE uuid = :id"
    cloud.change(claim, id=pool["id"])
    cloud.change("UPDATE storage_pools SET allocated_bytes = 8 WHERE uuid = :id", id=pool["id"])
    failure = cloud.refused("deleteStoragePool", id=pool["id"], forced="true")
    assert (failure.status, failure.cserrorcode) == (536, 4375)
    assert "8 bytes are claimed" in cloud.refused("updateStoragePool", id=pool["id"], capacitybytes=3).errortext
    assert cloud.make("updateStoragePool", id=pool["id"], capacitybytes=4)["disksizetotal"] == 4
    cloud.change("DELETE FROM storage_claims")
    cloud.change("UPDATE storage_pools SET allocated_bytes = 0 WHERE uuid = :id", id=pool["id"])


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"url": "10.0.0.9:/a"}, "parameter url"),
        ({"url": "ftp://10.0.0.9/a"}, "the scheme must be one of nfs"),
        ({"url": "nfs://u:s3cr3t@10.0.0.9/a"}, "must be a url such as"),
        ({"url": "nfs://10.0.0.9/a?size_gib=much"}, "size_gib must be"),
        ({"url": "rbd://u:s3cr3t@10.0.0.9"}, "it must be rbd://USER:SECRET@"),
        ({"url": "rbd://u:s3cr3t/@10.0.0.9/a"}, "the base64 text"),
        ({"url": "rbd://s3cr3t@10.0.0.9/a"}, "it must be rbd://USER:SECRET@"),
        ({"url": "rbd://u u:s3cr3t@10.0.0.9/a"}, "it must be rbd://USER:SECRET@"),
        ({"url": "rbd://u:s3cr3t@10.0.0.9/a"}, "the base64 text"),
        ({"url": "rbd://u:@10.0.0.9/a"}, "must not be empty"),
        ({"url": "rbd://u:secrets8@10.0.0.9:0/a"}, "each monitor"),
        ({"url": "rbd://u:secrets8@-m,10.0.0.9/a"}, "each monitor"),
        ({"url": "rbd://u:secrets8@10.0.0.9/-a"}, "the pool of a rbd url"),
        ({"url": "clvm://localhost/a/b"}, "it must name a volume group"),
        ({"url": "nfs://10.0.0.9/there"}, "the url is already used by pool there"),
        ({"name": "there"}, "another pool of the zone"),
        ({"scope": "HOST"}, "parameter scope"),
        ({"scope": "ZONE"}, "neither podid nor clusterid"),
        ({"hypervisor": "KVM"}, "the cluster's is Simulator"),
        ({"capacitybytes": "0"}, "parameter capacitybytes"),
        ({"managed": "true"}, "parameter managed: it is not supported"),
        ({"details[0].key": "x"}, "parameter details: it is not supported"),
        ({"tags": "a,a"}, "parameter tags"),
    ],
)
def test_pools_are_checked(cloud: Cloud, place: dict[str, str], parameters: dict[str, str], said: str) -> None:
    """A value that breaks a rule is refused with parameter and rule, and changes nothing."""
    if not cloud.rows("listStoragePools", name="there"):
        cloud.make("createStoragePool", name="there", url="nfs://10.0.0.9/there", **place)
    failure = cloud.refused(
        "createStoragePool", **{"name": "new", "url": "nfs://10.0.0.9/new", **place, **parameters}
    )
    assert (failure.status, said in failure.errortext) == (431, True), failure.errortext
    assert "s3cr3t" not in failure.errortext


def test_the_secret_of_ceph_is_shown_nowhere(cloud: Cloud, place: dict[str, str]) -> None:
    """The secret is encrypted at rest. Only drivers read it, in Ceph's alphabet; lists and events omit it."""
    secret, written = "AQ+/AQ==", "AQ-_AQ%3D%3D"
    url = f"rbd://bulk:{written}@10.0.0.9:3300,[2001:db8::9]/vms"
    pool = cloud.make("createStoragePool", name="ceph", url=url, capacitybytes=GIB, **place)
    assert (pool["type"], pool["ipaddress"], pool["path"]) == ("RBD", "10.0.0.9:3300,[2001:db8::9]", "/vms")
    shown = [pool, cloud.rows("listStoragePools"), cloud.rows("listEvents")]
    assert "AQ" not in str(shown)
    with cloud.engine.connect() as connection:
        found = connection.execute(
            text("SELECT user_name, secret_encrypted FROM storage_pools WHERE uuid = :id"), {"id": pool["id"]}
        ).one()
    assert (found.user_name, cloud.cipher.decrypt(found.secret_encrypted)) == ("bulk", secret)
    directory = records_in(cloud.engine, "Simulator".__eq__, decrypt=cloud.cipher.decrypt).directory
    (known,) = (one for one in directory.pools() if one.name == "ceph")
    assert (known.user, known.secret) == ("bulk", secret)
    assert secret not in repr(known)
    rotated = FernetCipher(Fernet.generate_key().decode())
    pools = records_in(cloud.engine, "Simulator".__eq__, decrypt=rotated.decrypt).directory.pools()
    assert len(pools) > 1  # the other pools stay readable
    with pytest.raises(DriverError, match="pool ceph cannot be decrypted"):
        [pool.secret for pool in pools]
    refused = cloud.refused("createStoragePool", name="again", url=url, capacitybytes=GIB, **place)
    assert "the url is already used by pool ceph" in refused.errortext
    assert "AQ" not in refused.errortext
    cloud.done("deleteStoragePool", id=pool["id"], forced="true")
