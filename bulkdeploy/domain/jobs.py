"""Asynchronous jobs: what CloudStack shows of them, and what the engine knows besides.

Source: reference section 3 (wire), DESIGN section 7 (phases, leases).
"""

from enum import IntEnum, StrEnum


class JobStatus(IntEnum):
    """``jobstatus`` on the wire; a job leaves IN_PROGRESS once and never changes again."""

    IN_PROGRESS = 0
    SUCCEEDED = 1
    FAILED = 2


class JobPhase(StrEnum):
    """What an unfinished job is doing; a finished one keeps ``DONE``."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"


class JobKind(StrEnum):
    """What a job does. The value is the Celery task's short name."""

    DEPLOY = "deploy_virtual_machine"
    START = "start_virtual_machine"
    STOP = "stop_virtual_machine"
    DESTROY = "destroy_virtual_machine"
    MIGRATE = "migrate_virtual_machine"
    REBOOT = "reboot_virtual_machine"
    SCALE = "scale_virtual_machine"
    RESTORE = "restore_virtual_machine"
    EXPUNGE = "expunge_virtual_machine"
    ATTACH_VOLUME = "attach_volume"
    DETACH_VOLUME = "detach_volume"
    ADD_NIC = "add_nic"
    REMOVE_NIC = "remove_nic"
    PREPARE_HOST = "prepare_host_for_maintenance"


HOST_KINDS = frozenset({JobKind.PREPARE_HOST})
"""Kinds of jobs whose instance is a host; that of all others is a VM."""

SUCCESS_KINDS = frozenset({JobKind.EXPUNGE, JobKind.SCALE})
"""Kinds whose result is a bare success; that of all others shows what they worked on."""

VOLUME_KINDS = frozenset({JobKind.ATTACH_VOLUME, JobKind.DETACH_VOLUME})
"""Kinds whose result is the volume that their params name: ``volume_id``."""

VIRTUAL_MACHINE, HOST = "VirtualMachine", "Host"
"""``jobinstancetype``: what a job works on."""


COMMAND_CLASS: dict[JobKind, str] = {
    JobKind.DEPLOY: "org.apache.cloudstack.api.command.admin.vm.DeployVMCmdByAdmin",
    JobKind.START: "org.apache.cloudstack.api.command.admin.vm.StartVMCmdByAdmin",
    JobKind.STOP: "org.apache.cloudstack.api.command.admin.vm.StopVMCmdByAdmin",
    JobKind.DESTROY: "org.apache.cloudstack.api.command.admin.vm.DestroyVMCmdByAdmin",
    JobKind.MIGRATE: "org.apache.cloudstack.api.command.admin.vm.MigrateVMCmd",
    JobKind.REBOOT: "org.apache.cloudstack.api.command.admin.vm.RebootVMCmdByAdmin",
    JobKind.SCALE: "org.apache.cloudstack.api.command.admin.vm.ScaleVMCmdByAdmin",
    JobKind.RESTORE: "org.apache.cloudstack.api.command.admin.vm.RestoreVMCmdByAdmin",
    JobKind.EXPUNGE: "org.apache.cloudstack.api.command.admin.vm.ExpungeVMCmd",
    JobKind.ATTACH_VOLUME: "org.apache.cloudstack.api.command.admin.volume.AttachVolumeCmdByAdmin",
    JobKind.DETACH_VOLUME: "org.apache.cloudstack.api.command.admin.volume.DetachVolumeCmdByAdmin",
    JobKind.ADD_NIC: "org.apache.cloudstack.api.command.admin.vm.AddNicToVMCmdByAdmin",
    JobKind.REMOVE_NIC: "org.apache.cloudstack.api.command.admin.vm.RemoveNicFromVMCmdByAdmin",
    JobKind.PREPARE_HOST: "org.apache.cloudstack.api.command.admin.host.PrepareForHostMaintenanceCmd",
}
"""``cmd`` of a job as a root admin's call shows it; clients match it by keyword."""

EXPUNGE_COMMAND_CLASS = COMMAND_CLASS[JobKind.EXPUNGE]
"""``cmd`` of a job that the sweeper makes to expunge a VM."""


UPDATE_DEFAULT_NIC_COMMAND_CLASS = "org.apache.cloudstack.api.command.admin.vm.UpdateDefaultNicForVMCmdByAdmin"
CANCEL_MAINTENANCE_COMMAND_CLASS = "org.apache.cloudstack.api.command.admin.host.CancelHostMaintenanceCmd"
"""``cmd`` of jobs that are done with their call."""


def command_class(kind: JobKind, *, is_root_admin: bool) -> str:
    """``cmd`` of a job as its caller's CloudStack would name it: root admins have commands of their own."""
    return class_for(COMMAND_CLASS[kind], is_root_admin=is_root_admin)


def class_for(name: str, *, is_root_admin: bool) -> str:
    """The class of a command, given as root admins see it, as the caller's CloudStack would name it."""
    return name if is_root_admin else name.replace(".admin.", ".user.").removesuffix("ByAdmin")


FAILED_RESULT_CODE = 530
"""``jobresultcode`` of every failed job; the true code stands in ``jobresult.errorcode``."""
