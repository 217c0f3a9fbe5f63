"""Which CloudStack this service presents itself as."""

CLOUDSTACK_VERSION = "4.22.1.0"
"""The version whose fields and parameters are answered; in listCapabilities and in every XML answer."""
