"""migrateVirtualMachine and findHostsForMigration."""

from dataclasses import replace

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.infrastructure.responses import HOST
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.placement_fields import REASON_FIELDS
from bulkdeploy.commands.planned_moves import MOVE_PLAN, PLAN_PARAMETERS, answered, plan_wanted
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, Instead, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import boolean, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, PlanStale
from bulkdeploy.services.virtual_machines import virtual_machine_migration
from bulkdeploy.store.rows.listing import Page


def migrate_virtual_machine(call: Call) -> JobTicket | Instead:
    """Migrate a running VM to another host, or return the plan of a dry run. The job's result is the VM."""
    done = virtual_machine_migration.migrate_virtual_machine(
        call.connection,
        call.system,
        call.caller,
        call.arguments["virtualmachineid"],
        host=call.ref("hostid"),
        autoselect=call.flag("autoselect", default=True),
        plan=plan_wanted(call, "migrateVirtualMachine"),
    )
    return answered(call, done)


def find_hosts_for_migration(call: Call) -> Page:
    """Return the hosts to which a running VM could be migrated."""
    return virtual_machine_migration.find_hosts_for_migration(
        call.connection, call.caller, call.arguments["virtualmachineid"], call.arguments, paging(call)
    )


COMMANDS: tuple[Command, ...] = (
    Command(
        name="migrateVirtualMachine",
        description="Moves a running virtual machine to another host. Its volumes stay in their pools.",
        handler=migrate_virtual_machine,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        instead=MOVE_PLAN,
        roles=ROOT_ADMIN_ONLY,
        errors=(PermissionDenied, PlanStale),
        changes_state=True,
        parameters=(
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "the VM", required=True),
            uuid("hostid", Entity.HOST, "the destination host"),
            boolean(
                "autoselect",
                "whether the planner selects the host if hostid is not given; default true",
                since="4.16",
            ),
            *PLAN_PARAMETERS,
        ),
        unsupported={"storageid": "volumes cannot be moved between pools"},
    ),
    Command(
        name="findHostsForMigration",
        description="Lists the hosts that a running virtual machine could move to",
        handler=find_hosts_for_migration,
        shape=Shape.LIST,
        response=replace(HOST, fields=(*HOST.fields, *REASON_FIELDS)),
        roles=ROOT_ADMIN_ONLY,
        errors=(PermissionDenied,),
        parameters=(
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "the VM", required=True),
            *PAGING,
        ),
    ),
)
