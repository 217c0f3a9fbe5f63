"""URLs of primary storage pools, as createStoragePool accepts them: type, server, path and credentials.

A Ceph pool is ``rbd://USER:SECRET@MONITORS/POOL``. The secret is base64; CloudStack's clients replace its ``+`` and
``/`` by ``-`` and ``_``. Several monitors are separated by commas.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

RBD, LOGICAL = "RBD", "CLVM"
POOL_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "nfs": "NetworkFilesystem",
        "sharedmountpoint": "SharedMountPoint",
        "rbd": RBD,
        "clvm": LOGICAL,
        "presetup": "PreSetup",
        "vmfs": "VMFS",
        "datastorecluster": "DatastoreCluster",
        "fiberchannel": "FiberChannel",
        "powerflex": "PowerFlex",
    }
)
"""Pool types by the scheme of the URL, as CloudStack has them."""

RBD_FORM = re.compile(r"rbd://(?:(?P<login>.*)@)?(?P<monitors>[^@/]+)/(?P<pool>[^@/]+)", re.ASCII | re.IGNORECASE)
CEPH_USER = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,63}", re.ASCII)
CEPH_POOL = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,127}", re.ASCII)
MONITOR = re.compile(
    r"(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)
VOLUME_GROUP = re.compile(r"[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}", re.ASCII)
HIDDEN = "rbd://..."
LAST_PORT = 65535


class StorageUrlError(ValueError):
    """Raised for a URL that does not name a storage pool. The text is the violated rule, without the URL."""


@dataclass(frozen=True, slots=True)
class StorageUrl:
    """The parts of a URL of a storage pool. ``user`` and ``secret`` are those of a Ceph user, or None."""

    pool_type: str
    server: str
    path: str
    user: str | None = None
    secret: str | None = field(default=None, repr=False)


def show_storage_url(url: str) -> str:
    """Return a URL of a storage pool without credentials, for errors."""
    return HIDDEN if url.lower().startswith("rbd:") else url


def read_storage_url(url: str) -> StorageUrl:
    """Parse a URL of a storage pool.

    Raises:
        StorageUrlError: the URL does not name a storage pool.
    """
    scheme = url.partition(":")[0].lower()
    if scheme not in POOL_TYPES:
        raise StorageUrlError(f"the scheme must be one of {', '.join(POOL_TYPES)}")
    if POOL_TYPES[scheme] == RBD:
        return _read_rbd_url(url)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise StorageUrlError("it must be a valid url, such as nfs://10.1.1.9/export/primary") from None
    path = unquote(parts.path) or "/"
    if POOL_TYPES[scheme] == LOGICAL and not VOLUME_GROUP.fullmatch(path.strip("/")):
        raise StorageUrlError("it must name a volume group, such as clvm://localhost/vg-guests")
    return StorageUrl(POOL_TYPES[scheme], parts.hostname or "localhost", path)


def _read_rbd_url(url: str) -> StorageUrl:
    form = "it must be rbd://USER:SECRET@MONITOR,MONITOR/POOL, with + and / of the secret as - and _"
    found = RBD_FORM.fullmatch(url)
    if found is None:
        raise StorageUrlError(form)
    pool = unquote(found["pool"])
    if not CEPH_POOL.fullmatch(pool):
        raise StorageUrlError("the pool of a rbd url must be a name of letters, digits, '.', '_' and '-'")
    for monitor in found["monitors"].split(","):
        named = MONITOR.fullmatch(monitor)
        if named is None or not 0 < int(named["port"] or 1) <= LAST_PORT:
            raise StorageUrlError(
                "each monitor of a rbd url must be a host name or an address, with or without a port"
            )
    if found["login"] is None:
        return StorageUrl(RBD, found["monitors"], f"/{pool}")
    user, colon, secret = (unquote(part) for part in found["login"].partition(":"))
    if not colon or not CEPH_USER.fullmatch(user):
        raise StorageUrlError(form)
    return StorageUrl(RBD, found["monitors"], f"/{pool}", user, _ceph_secret(secret))


def _ceph_secret(written: str) -> str:
    """Convert the secret in a URL to Ceph's base64 alphabet."""
    secret = written.replace("-", "+").replace("_", "/")
    try:
        base64.b64decode(secret, validate=True)
    except binascii.Error:
        raise StorageUrlError(
            "the secret of a rbd url must be the base64 text that 'ceph auth get-key' prints"
        ) from None
    if not secret:
        raise StorageUrlError("the secret of a rbd url must not be empty")
    return secret
