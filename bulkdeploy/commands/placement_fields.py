"""Response fields with the reasons why hosts cannot run VMs, in plans, deployments, failed jobs and migrations."""

from bulkdeploy.declare.response_fields import number, objects, text
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY

REASON_FIELDS = (
    text("reason", "the placement rule that excludes the host, by its code", ROOT_ADMIN_ONLY),
    text("text", "what the rule means", ROOT_ADMIN_ONLY),
    text("remedy", "what an operator can do about it", ROOT_ADMIN_ONLY),
)

EXCLUDED = objects(
    "excluded",
    "hosts that take no VM, by the first rule that excludes them",
    (number("hosts", "how many hosts"), *REASON_FIELDS),
    ROOT_ADMIN_ONLY,
)

HOSTS = objects(
    "hosts",
    "the hosts of hostids: how many such VMs each takes, or why none",
    (
        text("hostid", "the host"),
        text("hostname", "its name"),
        text("clusterid", "its cluster"),
        text("clustername", "the cluster's name"),
        text("podid", "the cluster's pod"),
        number("capacity", "VMs of this kind that it has room for, were they all to go there"),
        *REASON_FIELDS,
    ),
    ROOT_ADMIN_ONLY,
)
