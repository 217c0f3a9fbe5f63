"""The rule that decides whether a VM may be scaled while it runs.

Source: ``checkIfDynamicScalingCanBeEnabled`` of CloudStack's UserVmManagerImpl. The VM, its service offering, its
template and the setting ``enable.dynamic.scale.vm`` of its zone must all allow it.
"""

from collections.abc import Collection

from sqlalchemy import Boolean, ColumnElement, Connection, literal_column, text

from bulkdeploy.domain.configuration import BY_NAME, Scope
from bulkdeploy.store.configuration.configurations import GLOBAL_ID
from bulkdeploy.store.database.arrays import int_array

SETTING = "enable.dynamic.scale.vm"


_OVERRIDES = f"SELECT {{}} FROM configuration_values WHERE name = '{SETTING}' AND scope = "  # noqa: S608 - a constant
_GLOBAL = f"({_OVERRIDES.format('value')}'{Scope.GLOBAL.value}' AND scope_id = {GLOBAL_ID})"
_ZONES_WITH = f"ARRAY({_OVERRIDES.format('scope_id')}'{Scope.ZONE.value}' AND value = '{{}}')"


def dynamic_scaling_rule(vm: str, offering: str, template: str) -> str:
    """Return the rule as an SQL expression. The arguments are the names or aliases of the tables in the query.

    The values of the setting are read once per statement, not once per VM.
    """
    return (
        f"(coalesce({vm}.dynamic_scaling, true) AND {offering}.dynamic_scaling AND {template}.dynamically_scalable"
        f" AND CASE WHEN coalesce({_GLOBAL}, '{BY_NAME[SETTING].default}') = 'true'"
        f" THEN {vm}.zone_id <> ALL({_ZONES_WITH.format('false')})"
        f" ELSE {vm}.zone_id = ANY({_ZONES_WITH.format('true')}) END)"
    )


def dynamic_scaling_column() -> ColumnElement[bool]:
    """Return the rule as a column of a query over virtual_machines, service_offerings and templates."""
    return literal_column(dynamic_scaling_rule("virtual_machines", "service_offerings", "templates"), Boolean)


_SCALABLE = text(
    "SELECT v.id FROM virtual_machines v"  # noqa: S608 - constants of this module
    " JOIN service_offerings o ON o.id = v.service_offering_id JOIN templates t ON t.id = v.template_id"
    f" WHERE v.id = ANY(CAST(:vms AS bigint[])) AND {dynamic_scaling_rule('v', 'o', 't')}"
)


def find_scalable(connection: Connection, vm_ids: Collection[int]) -> set[int]:
    """Return the VMs, by id, that may be scaled while they run."""
    return set(connection.execute(_SCALABLE, {"vms": int_array(vm_ids)}).scalars())
