"""What nobody reaches beside the ids that the walk tries: lists by any filter, zones, owners beside ids, jobs."""

from collections.abc import Iterator

import pytest

from bulkdeploy.declare.command import Command
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.entities import Entity
from tests.access.tenants import BELOW, OPENED, RIVAL_ADMIN, ROLE_TYPES, own
from tests.access.walking import COMMANDS, OWNERSHIP, Walker, secrets_of
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, RIVAL, USER

pytestmark = pytest.mark.long

EVERYTHING = {"listall": "true", "isrecursive": "true", "pagesize": "-1", "showremoved": "true", "details": "all"}
"""What makes a list as long as it can be, as far as a command has these parameters."""


def narrowings(walker: Walker, command: Command, by: str) -> Iterator[dict[str, str]]:
    """Filters that would find what is another tenant's."""
    yield {}
    yield {"keyword": own(USER)}
    yield {"name": own(USER)}
    yield {"projectid": "-1"}
    yield {"account": USER}
    yield {"domainid": str(walker.thing(Entity.DOMAIN, by))}
    yield {"tags[0].key": "of"}
    yield {"key": "of"}
    yield {"archived": "true"}
    for parameter in command.parameters:
        for word in parameter.choices:
            yield {parameter.name: word}


def may_call(by: str, command: Command) -> bool:
    """Whether a caller's role allows a command: that of one caller allows everything by its rule."""
    return by == OPENED or ROLE_TYPES[by] in command.roles


def found_of_acme(walker: Walker, by: str) -> dict[str, str]:
    """Beginnings of answers that show something of acme's, by command and filter; lists are as long as can be."""
    found: dict[str, str] = {}
    secrets = secrets_of(walker, USER, by)
    for name, command in COMMANDS.items():
        if command.shape is not Shape.LIST or command.changes_state or not may_call(by, command):
            continue
        declared = {parameter.name for parameter in command.parameters}
        requested = walker.plausible(command, by) | {key: EVERYTHING[key] for key in EVERYTHING.keys() & declared}
        for narrowing in narrowings(walker, command, by):
            if all(key.partition("[")[0] in declared for key in narrowing):
                answer = walker.call(name, by, requested | narrowing)
                if answer.status == 200 and any(secret in answer.body for secret in secrets):
                    found[f"{name} {narrowing}"] = str(answer.body[:300])
    return found


@pytest.mark.parametrize("by", [NEIGHBOUR, RIVAL, RIVAL_ADMIN, BELOW, OPENED])
def test_no_filter_finds_things_of_others(walker: Walker, by: str) -> None:
    """Lists by every filter show nothing of another account: neither ids nor names."""
    assert found_of_acme(walker, by) == {}


def test_filters_find_things_of_the_caller(walker: Walker) -> None:
    """The same lists show their owner what they should, most of them by several filters."""
    found = found_of_acme(walker, USER)
    assert len({call.partition(" ")[0] for call in found}) > 15
    assert len(found) > 50


IN_ZONES = {
    "deployVirtualMachine": {"serviceofferingid": "Small", "templateid": "Debian 12", "networkids": "guests"},
    "createVolume": {"diskofferingid": "20 GiB"},
    "createNetwork": {"networkofferingid": "DefaultIsolatedNetworkOfferingWithSourceNatService"},
    "registerTemplate": {},
    "registerIso": {},
}
TABLES = {"serviceofferingid": "service_offerings", "templateid": "templates", "networkids": "networks"}
TABLES |= {"diskofferingid": "disk_offerings", "networkofferingid": "network_offerings"}


@pytest.mark.parametrize("name", IN_ZONES)
def test_zones_are_kept_to_their_domains(walker: Walker, postgres_url: str, name: str) -> None:
    """In a zone that is kept to a domain others make nothing, nor do admins for them; its own do."""
    requested = {key: walker.named(TABLES[key], value) for key, value in IN_ZONES[name].items()}
    requested |= {"name": "walker", "url": "http://images.example/x", "format": "QCOW2", "hypervisor": "KVM"}
    for_acme = {"account": USER, "domainid": str(walker.thing(Entity.DOMAIN, USER))}
    private = {domain: walker.named("zones", f"kept to {domain}") for domain in ("acme", "rivals")}
    with walker.in_a_copy(postgres_url) as copy:
        before = copy.picture()
        for by, more in ((USER, {}), (DOMAIN_ADMIN, {}), (DOMAIN_ADMIN, for_acme), (ADMIN, for_acme)):
            answer = copy.call(name, by, {**requested, **more, "zoneid": private["rivals"]})
            reported = b"does not have permission to use zone" if by == ADMIN else b"entity does not exist"
            assert (answer.status, reported in answer.body) == (531 if by == ADMIN else 431, True)
            assert b"kept to" not in answer.body
        assert copy.picture() == before
        assert b"permission to use zone" not in copy.call(name, USER, {**requested, "zoneid": private["acme"]}).body


def test_an_owner_beside_an_id_is_the_things_own(walker: Walker, postgres_url: str) -> None:
    """Who names an account or project beside the id of something that belongs to another is refused."""
    admins = {"account": DOMAIN_ADMIN, "domainid": str(walker.thing(Entity.DOMAIN, DOMAIN_ADMIN))}
    mine = {"projectid": str(walker.thing(Entity.PROJECT, DOMAIN_ADMIN))}
    theirs = {"projectid": str(walker.thing(Entity.PROJECT, RIVAL))}
    rule = {"cidrlist": "10.0.0.0/8", "protocol": "tcp", "startport": "1", "endport": "2"}
    group = {"securitygroupid": str(walker.thing(Entity.SECURITY_GROUP, USER))}
    calls = {
        "deleteAffinityGroup": {"id": str(walker.thing(Entity.AFFINITY_GROUP, USER))},
        "deleteSecurityGroup": {"id": group["securitygroupid"]},
        "authorizeSecurityGroupIngress": group | rule,
        "authorizeSecurityGroupEgress": group | rule,
        "resetSSHKeyForVirtualMachine": {"id": str(walker.thing(Entity.VIRTUAL_MACHINE, USER)), "keypair": "x"},
    }
    with walker.in_a_copy(postgres_url) as copy:
        before = copy.picture()
        for name, requested in calls.items():
            for owner in (admins, mine, theirs):
                answer = copy.call(name, DOMAIN_ADMIN, requested | owner)
                refused = (
                    b"entity does not exist" in answer.body if owner is theirs else OWNERSHIP.search(answer.body)
                )
                assert (answer.status, bool(refused)) == (431 if owner is theirs else 531, True), (
                    name,
                    answer.body,
                )
        assert copy.picture() == before
