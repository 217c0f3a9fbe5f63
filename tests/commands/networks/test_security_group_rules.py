"""Rules of security groups, as Ansible and Terraform add and take them away."""

import pytest

from tests.support.api.async_calls import change, refusal
from tests.support.zones.world import NEIGHBOUR, USER, World


def group(world: World, name: str) -> str:
    """A fresh security group of acme."""
    return str(change(world, "createSecurityGroup", USER, name=name)["id"])


@pytest.mark.parametrize(
    ("word", "parameters", "expected"),
    [
        ("Ingress", {"protocol": "TCP", "startport": 80, "endport": 443, "cidrlist": "10.0.0.0/8,::/0"}, 2),
        ("Egress", {"protocol": "udp", "startport": 0, "endport": 65535, "cidrlist": "0.0.0.0/0,0.0.0.0/0"}, 1),
        ("Ingress", {"protocol": "icmp", "icmptype": -1, "icmpcode": -1, "cidrlist": "10.0.0.0/8"}, 1),
        ("Egress", {"cidrlist": "10.0.0.0/8"}, 1),
        (
            "Ingress",
            {"usersecuritygrouplist[0].account": "acme", "usersecuritygrouplist[0].group": "default"},
            1,
        ),
    ],
)
def test_rules_come_and_go(owned_world: World, word: str, parameters: dict[str, object], expected: int) -> None:
    """The job answers the group with the new rules alone; lists show them; a rule is once; revoked, it is gone."""
    world, kind = owned_world, f"{word.lower()}rule"
    name = f"rules {word} {sorted(parameters)} {expected}"
    group_id = group(world, name)
    answer = change(world, f"authorizeSecurityGroup{word}", USER, securitygroupid=group_id, **parameters)
    assert (answer["id"], len(answer[kind])) == (group_id, expected)
    (listed,) = world.rows("listSecurityGroups", USER, id=group_id)
    assert listed[kind] == answer[kind]
    again = refusal(world, f"authorizeSecurityGroup{word}", USER, securitygroupname=name, **parameters)
    assert (again.status, "already" in again.errortext) == (431, True)
    other = {"Ingress": "Egress", "Egress": "Ingress"}[word]
    rule = answer[kind][0]["ruleid"]
    assert refusal(world, f"revokeSecurityGroup{word}", NEIGHBOUR, id=rule).status == 431
    assert refusal(world, f"revokeSecurityGroup{other}", USER, id=rule).status == 431
    assert change(world, f"revokeSecurityGroup{word}", USER, id=rule) == {"success": True}
    assert refusal(world, f"revokeSecurityGroup{word}", USER, id=rule).status == 431
    (listed,) = world.rows("listSecurityGroups", USER, id=group_id)
    assert listed[kind] == answer[kind][1:]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"protocol": "tcp", "cidrlist": "10.0.0.0/8"}, "needs startport and endport"),
        ({"protocol": "tcp", "startport": 5, "endport": 4, "cidrlist": "10.0.0.0/8"}, "endport"),
        ({"protocol": "tcp", "startport": -1, "endport": 4, "cidrlist": "10.0.0.0/8"}, "between 0 and 65535"),
        ({"protocol": "tcp", "startport": 1, "endport": 65536, "cidrlist": "10.0.0.0/8"}, "between 0 and 65535"),
        ({"protocol": "icmp", "cidrlist": "10.0.0.0/8"}, "needs icmptype and icmpcode"),
        ({"protocol": "all", "startport": 1, "endport": 2, "cidrlist": "10.0.0.0/8"}, "does not apply"),
        ({"protocol": "sctp", "cidrlist": "10.0.0.0/8"}, "tcp"),
        ({"cidrlist": "10.0.0.1"}, "10.0.0.0/8"),
        ({"cidrlist": "10.0.0.0/33"}, "10.0.0.0/8"),
        ({"cidrlist": "10.0.0.0/8, 11.0.0.0/8"}, "cidrlist"),
        ({}, "At least one"),
        ({"usersecuritygrouplist[0].account": "acme"}, "an account and a group"),
        ({"usersecuritygrouplist[0].account": "rival", "usersecuritygrouplist[0].group": "default"}, "rival"),
    ],
)
def test_bad_rules_change_nothing(owned_world: World, parameters: dict[str, object], text: str) -> None:
    """A rule that makes no sense is refused by name, and the group has none afterwards."""
    world = owned_world
    group_id = group(world, f"bad {sorted(parameters.items())}")
    failure = refusal(world, "authorizeSecurityGroupIngress", USER, securitygroupid=group_id, **parameters)
    assert (failure.status, text in failure.errortext) == (431, True), failure.errortext
    (listed,) = world.rows("listSecurityGroups", USER, id=group_id)
    assert listed["ingressrule"] == []


def test_a_group_that_a_rule_names_stays(owned_world: World) -> None:
    """A group is not deleted while another group's rule lets it in; its own rules go with it."""
    world = owned_world
    named, naming = group(world, "named"), group(world, "naming")
    peer = {"usersecuritygrouplist[0].account": "acme", "usersecuritygrouplist[0].group": "named"}
    for group_id in (named, naming):
        change(world, "authorizeSecurityGroupIngress", USER, securitygroupid=group_id, **peer)
    failure = refusal(world, "deleteSecurityGroup", USER, id=named)
    assert (failure.status, "rule" in failure.errortext) == (536, True)
    change(world, "deleteSecurityGroup", USER, name="naming")
    change(world, "deleteSecurityGroup", USER, id=named)


def test_strangers_add_nothing(owned_world: World) -> None:
    """Only who may touch a group adds rules to it."""
    group_id = group(owned_world, "acme's own")
    failure = refusal(
        owned_world, "authorizeSecurityGroupEgress", NEIGHBOUR, securitygroupid=group_id, cidrlist="0.0.0.0/0"
    )
    assert failure.status == 431
