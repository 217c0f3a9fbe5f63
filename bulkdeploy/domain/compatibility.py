"""The CloudStack release as which this service presents itself."""

from uuid import UUID, uuid5

CLOUDSTACK_VERSION = "4.22.1.0"
"""The version whose fields and parameters are answered; in listCapabilities and in every XML answer."""

MANAGEMENT_SERVER = "bulkdeploy"
MANAGEMENT_SERVER_ID = str(uuid5(UUID("5be5a1b0-6c0f-4d63-9c35-1f1d0a0e7f52"), MANAGEMENT_SERVER))
"""What clients see as the one management server: the service, however many processes it is."""
