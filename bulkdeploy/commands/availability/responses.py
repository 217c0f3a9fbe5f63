"""Responses of the commands for host HA and out-of-band management."""

from bulkdeploy.declare.response_fields import flag, text
from bulkdeploy.declare.responses import Field, Response

POWER_FIELDS: tuple[Field, ...] = (
    flag("enabled", "whether out-of-band management is enabled for the host"),
    text("powerstate", "the power state: On, Off or Unknown; Disabled if out-of-band management is disabled"),
    text("driver", "the power driver"),
    text("address", "the address of the management controller"),
    text("port", "the port of the management controller"),
    text("username", "the user of the management controller"),
)

OUT_OF_BAND_MANAGEMENT = Response(
    "outofbandmanagement",
    (
        text("hostid", "the host"),
        *POWER_FIELDS,
        text("action", "the action that was requested"),
        text("description", "a description of the result"),
        flag("status", "whether the call succeeded"),
    ),
)

HA_FIELDS: tuple[Field, ...] = (
    flag("haenable", "whether host HA is enabled for the host"),
    text(
        "hastate",
        "the state of host HA: Disabled, Available, Ineligible, Suspect, Checking, Degraded, Recovering, "
        "Recovered, Fencing or Fenced",
    ),
    text("haprovider", "the name of the provider"),
)

HOST_HA = Response("hostha", (text("hostid", "the host"), *HA_FIELDS, flag("status", "whether the call succeeded")))
