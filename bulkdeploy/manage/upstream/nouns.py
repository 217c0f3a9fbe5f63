"""The nouns of an import: the nouns of zone files, extended by projects.

Hosts and pools are copied from the other cloud; no driver is called.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.commands.registry import find_nouns
from bulkdeploy.declare.noun import Noun, Values, by
from bulkdeploy.declare.parameters import integer, long, string, strings, uuid
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.infrastructure.topology import PoolScope
from bulkdeploy.services.accounts.projects import NewProject, create_project
from bulkdeploy.services.infrastructure import learnt_places
from bulkdeploy.services.networks import learnt_networks
from bulkdeploy.store.accounts.owned_entities import read_of_projects
from bulkdeploy.store.infrastructure import hosts
from bulkdeploy.store.infrastructure.storage import storage_pools
from bulkdeploy.store.rows.entities import resolve
from bulkdeploy.store.rows.live_rows import UUID_OF_ITS_OWN, change_rows, own_uuid, reader

ADOPTED = frozenset({"accounts", "users", "roles", "networkofferings", "securitygroups", "vlanipranges"})
"""What is here before it is imported: every installation has it, or it came with something else."""

HOST = (
    string("name", "its name"),
    string("ipaddress", "its address"),
    string("hypervisorversion", "the version of its hypervisor"),
    integer("cpusockets", "its sockets", minimum=1),
    integer("cpucores", "its cores, before over-commit", minimum=1),
    integer("cpumhz", "MHz of a core", minimum=1),
    long("memorymib", "its memory, before over-commit, MiB", minimum=1),
    string("state", "whether it answers"),
    string("resourcestate", "whether its operator wants VMs on it"),
    strings("hosttags", "its tags"),
)
POOL = (
    string("name", "its name"),
    string("state", "whether it takes volumes"),
    string("pooltype", "its type"),
    string("server", "its server"),
    string("path", "its path", length=4096),
    long("capacitybytes", "its size, before over-provisioning, bytes"),
    string("tags", "its tags, separated by commas"),
)


def nouns_of_imports() -> Mapping[str, Noun]:
    """Return the nouns by section, in the order in which their objects are created."""
    known = find_nouns()
    own = {
        "zones": replace(known["zones"], optional=("dns1", "internaldns1")),
        "securitygroups": _with_projects(known["securitygroups"], Entity.SECURITY_GROUP),
        "affinitygroups": _with_projects(known["affinitygroups"], Entity.AFFINITY_GROUP),
        "networks": _with_projects(_networks(known["networks"]), Entity.NETWORK),
        "projects": _projects(known["accounts"]),
        "hosts": _hosts(known["hosts"]),
        "storagepools": _pools(known["storagepools"]),
        "poolfactors": replace(known["configuration"], section="poolfactors"),
        "accountlimits": replace(known["limits"], section="accountlimits"),
        "projectlimits": replace(known["limits"], section="projectlimits"),
    }
    return {section: {**known, **own}[section] for section in SECTIONS}


SECTIONS = (
    *("domains", "roles", "accounts", "users", "projects", "zones", "physicalnetworks", "pods", "clusters"),
    *("configuration", "serviceofferings", "diskofferings", "networkofferings", "templates", "isos"),
    *("securitygroups", "ingressrules", "egressrules", "affinitygroups", "networks", "vlanipranges", "hosts"),
    *("storagepools", "poolfactors", "limits", "accountlimits", "projectlimits"),
)


def _with_projects(noun: Noun, entity: Entity) -> Noun:
    """Return the noun extended by the objects of projects, which zone files do not contain."""

    def read(connection: Connection) -> list[Values]:
        return [*noun.read(connection), *read_of_projects(connection, entity)]

    def key(values: Values) -> Hashable:
        return values.get("projectid"), noun.key(values)

    return replace(noun, read=read, key=key)


def _networks(noun: Noun) -> Noun:
    more = (*noun.more, string("guesttype", "its type", required=True), string("cidr", "its addresses"))
    return replace(noun, create_many=learnt_networks.add_networks, more=more, parent=None)


def _hosts(noun: Noun) -> Noun:
    places = tuple(one for one in noun.create.parameters if one.name in PLACES)
    return replace(
        noun,
        create=replace(noun.create, parameters=places, rules=()),
        update=replace(noun.create, parameters=HOST, rules=()),
        more=HOST,
        prepare=learnt_places.learnt_hosts,
        update_many=learnt_places.follow_hosts,
        read=hosts.read_learnt_hosts,
        patterns=False,
    )


def _pools(noun: Noun) -> Noun:
    places = tuple(one for one in noun.create.parameters if one.name in PLACES and one.name != "scope")
    # addHost creates pools of one host, not createStoragePool. Another cloud lists both.
    scope = string("scope", "what reaches it", choices=tuple(one.value for one in PoolScope))
    host = uuid("hostid", Entity.HOST, "the host of a pool of scope HOST")
    return replace(
        noun,
        create=replace(noun.create, parameters=(*places, scope, host), rules=()),
        update=replace(noun.create, parameters=POOL, rules=()),
        more=POOL,
        prepare=learnt_places.learnt_pools,
        update_many=learnt_places.follow_pools,
        read=storage_pools.read_learnt_pools,
        compare={},
        optional=("url",),
    )


PLACES = ("zoneid", "podid", "clusterid", "scope", "hypervisor", "url")


def _projects(like: Noun) -> Noun:
    named = (
        string("name", "its name", required=True),
        string("displaytext", "its description"),
        string("account", "who manages it"),
        uuid("domainid", Entity.DOMAIN, "its domain"),
    )
    return replace(
        like,
        section="projects",
        entity=Entity.PROJECT,
        create=replace(like.create, name="createProject", parameters=named, rules=()),
        create_many=_make_projects,
        update=None,
        update_many=None,
        more=(),
        read=reader(Entity.PROJECT),
        key=by("name"),
        name="name",
        parent=None,
        lends=(),
        last={},
        defaults={},
    )


def _make_projects(connection: Connection, caller: Caller, batch: Sequence[Any]) -> list[EntityRef]:
    """Create the projects one after the other, as API calls do, with their ids of the other cloud if given."""
    made = []
    for given in batch:
        new = NewProject(given["name"], given.get("displaytext"), given.get("account"), given.get("domainid"))
        ticket = create_project(connection, caller, new)
        project_id = str(ticket.entity_uuid)
        ref = resolve(connection, caller, (Entity.PROJECT,), [project_id])[project_id]
        if UUID_OF_ITS_OWN in given:
            change_rows(connection, [(ref, own_uuid(given))])
            ref = replace(ref, uuid=given[UUID_OF_ITS_OWN])
        made.append(ref)
    return made
