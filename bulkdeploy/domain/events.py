"""Events: their types, levels and states, in CloudStack's words (reference section 8.19)."""

from enum import StrEnum


class EventType(StrEnum):
    """What happened; ``listEventTypes`` answers these."""

    VM_CREATE = "VM.CREATE"
    VM_START = "VM.START"
    VM_STOP = "VM.STOP"
    VM_DESTROY = "VM.DESTROY"
    CONFIGURATION_EDIT = "CONFIGURATION.VALUE.EDIT"
    RESOURCE_LIMIT_UPDATE = "RESOURCE.LIMIT.UPDATE"


class EventLevel(StrEnum):
    """How bad it is."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


class EventState(StrEnum):
    """How far an action is."""

    CREATED = "Created"
    SCHEDULED = "Scheduled"
    STARTED = "Started"
    COMPLETED = "Completed"
