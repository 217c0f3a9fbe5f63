"""Response fields with the reasons why hosts cannot get VMs, for plans, deployments, failed jobs and migrations."""

from bulkdeploy.declare.response_fields import number, objects, text
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY

REASON_FIELDS = (
    text("reason", "the code of the placement rule that excludes the host", ROOT_ADMIN_ONLY),
    text("text", "what the rule means", ROOT_ADMIN_ONLY),
    text("remedy", "what an operator can do about it", ROOT_ADMIN_ONLY),
)

EXCLUDED = objects(
    "excluded",
    "the hosts that cannot get VMs, grouped by the first placement rule that excludes them",
    (number("hosts", "the number of hosts"), *REASON_FIELDS),
    ROOT_ADMIN_ONLY,
)

HOSTS = objects(
    "hosts",
    "the hosts of hostids, each with the number of such VMs that fit, or with the reason why none fits",
    (
        text("hostid", "the host"),
        text("hostname", "the name of the host"),
        text("clusterid", "the cluster of the host"),
        text("clustername", "the cluster's name"),
        text("podid", "the cluster's pod"),
        number("capacity", "the number of such VMs that fit on the host, if all of them were placed there"),
        *REASON_FIELDS,
    ),
    ROOT_ADMIN_ONLY,
)
