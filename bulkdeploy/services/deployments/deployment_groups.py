"""Checks that the affinity groups and key pairs of a deployment exist and that its owner may use them."""

from collections.abc import Sequence

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Owner
from bulkdeploy.domain.deployments.deployment import AffinityFacts, DeployRequest
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.store.deployments import deployment_facts as facts


def check_affinity_groups(
    connection: Connection, request: DeployRequest, owner: Owner
) -> tuple[AffinityFacts, ...]:
    """Return the requested affinity groups, after checking that the owner may use them.

    Raises:
        InvalidParameter, PermissionDenied: a group does not exist, or the owner may not use it.
    """
    if request.affinity_group_names is not None:
        groups = facts.read_affinity_groups(connection, owner, names=request.affinity_group_names)
        missing = set(request.affinity_group_names) - {group.name for group in groups}
        if missing:
            name = min(missing)
            raise InvalidParameter("affinitygroupnames", name, f"Unable to find affinity group by name {name}")
        return tuple(groups)
    if request.affinity_group_ids is None:
        return ()
    groups = facts.read_affinity_groups(connection, owner, ids=request.affinity_group_ids)
    gone = set(request.affinity_group_ids) - {group.id for group in groups}
    if gone:
        shown = request.shown("affinitygroupids", min(gone))
        raise InvalidParameter("affinitygroupids", shown, "the affinity group was deleted")
    for group in groups:
        of_domain = group.account_id is None and owner.lineage.startswith(group.domain_lineage)
        if group.account_id != owner.account_id and not of_domain:
            raise PermissionDenied(
                f"Affinity Group {request.shown('affinitygroupids', group.id)} does not belong to the VM's account "
                f"{owner.account_name}"
            )
    return tuple(groups)


def check_key_pairs(
    connection: Connection, keypairs: Sequence[str], owner: Owner, parameter: str = "keypairs"
) -> None:
    """Check that the owner has key pairs with all these names, which the parameter ``parameter`` contains.

    Raises:
        InvalidParameter: the owner does not have some of the key pairs.
    """
    names = set(keypairs)
    if names and facts.count_key_pairs(connection, owner, sorted(names)) != len(names):
        raise InvalidParameter(
            parameter,
            ",".join(keypairs),
            f"Not all specified keypairs exist for account {owner.account_name}",
        )
