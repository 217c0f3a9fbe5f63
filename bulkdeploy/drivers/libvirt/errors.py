"""The conversion of libvirt's errors to driver errors, which state whether a retry may help."""

from collections.abc import Iterator
from contextlib import contextmanager

try:
    import libvirt
    import libvirt_qemu
except ImportError as missing:
    raise ImportError(
        "libvirt-python is missing: pip install 'bulkdeploy[libvirt]' (docs/how-to/kvm.md)"
    ) from missing

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.libvirt.ceph import CephError

__all__ = ["LOST", "PERMANENT", "failing_at", "is_code", "is_lost", "libvirt", "libvirt_qemu"]

PERMANENT = frozenset(
    {
        libvirt.VIR_ERR_NO_SUPPORT,
        libvirt.VIR_ERR_INVALID_ARG,
        libvirt.VIR_ERR_XML_ERROR,
        libvirt.VIR_ERR_XML_DETAIL,
        libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
        libvirt.VIR_ERR_AUTH_FAILED,
        libvirt.VIR_ERR_AUTH_CANCELLED,
    }
)
"""The codes of errors that a retry cannot resolve."""

LOST = frozenset({libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_ERR_INTERNAL_ERROR})
"""The codes which, from the RPC layer, mean that the connection broke. The call may have taken effect."""


def is_code(error: "libvirt.libvirtError", *codes: int) -> bool:
    """Return whether an error has one of these codes."""
    return error.get_error_code() in codes


def is_lost(error: "libvirt.libvirtError") -> bool:
    """Return whether the error means that the connection broke."""
    return error.get_error_domain() == libvirt.VIR_FROM_RPC and is_code(error, *LOST)


@contextmanager
def failing_at(step: str, host: str) -> Iterator[None]:
    """Convert errors of libvirt and of Ceph to errors of this step and host within the context."""
    try:
        yield
    except libvirt.libvirtError as error:
        transient = not is_code(error, *PERMANENT)
        raise DriverError(step, host, str(error), transient=transient, unanswered=is_lost(error)) from error
    except CephError as error:
        raise DriverError(step, host, str(error), transient=error.transient) from error
