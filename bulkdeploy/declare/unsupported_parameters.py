"""The description and rejection of CloudStack's parameters that this service does not support.

Clients read from ``listApis`` which parameters exist: forms of CloudStack's UI stay empty if one of their
parameters is missing. Therefore such a parameter is described, with the reason why it is rejected.
"""

from collections.abc import Mapping

from bulkdeploy.declare.parameters import WireType

NOT_SUPPORTED = "not supported here: "
"""The beginning of the description of each such parameter."""

_NAMES: Mapping[WireType, str] = {
    WireType.BOOLEAN: (
        "accumulate asyncbackup automigrate bootintosetup changecidr cleanupexternaldetails copyimagetags "
        "customizediops deployasis directdownload diskofferingstrictness disksizestrictness encrypt "
        "encryptroot forced forcedestroylocalstorage forcks fornsx forsystemvms fortungsten forvpc gpudisplay "
        "gpuenabled hideipaddressusage iothreadsenabled isedge isencrypted isrouting issystem "
        "istagarule istagged isvnf isvolatile keepaliveenabled livepatch makeredundant managed "
        "mandate2fa migrateallowed nicpackedvirtqueuesenabled nsxsupportlb nsxsupportsinternallb "
        "outofbandmanagementenabled purgeresources quiescevm shrinkok specifyasnumber storagecustomstats "
        "updateinsequence usestoragereplication"
    ),
    WireType.INTEGER: ("cidrsize duration entrytime gpucount hypervisorsnapshotreserve nicmultiqueuenumber"),
    WireType.LONG: (
        "asnumber bytesreadrate bytesreadratemax bytesreadratemaxlength byteswriterate byteswriteratemax "
        "byteswriteratemaxlength capacityiops id iopsreadrate iopsreadratemax iopsreadratemaxlength "
        "iopswriterate iopswriteratemax iopswriteratemaxlength maxiops miniops rootdisksize"
    ),
    WireType.UUID: (
        "aclid associatednetworkid autoscalevmgroupid backupofferingid destinationphysicalnetworkid "
        "diskofferingid extensionid imagestoreid oscategoryid parenttemplateid policyid projectid "
        "projectroleid snapshotid storageid storagepolicy vgpuprofileid virtualmachineid volumeid vpcid"
    ),
    WireType.LIST: ("bgppeerids dnssearchorder networkids storageids zoneids"),
    WireType.MAP: (
        "accountdetails datadiskofferinglist details dhcpoptions dhcpoptionsnetworklist externaldetails "
        "nicipaddresslist nicnetworklist properties userdatadetails"
    ),
}

TYPES: Mapping[str, WireType] = {name: type_ for type_, names in _NAMES.items() for name in names.split()}
"""The types of these parameters in CloudStack, by name; others are strings, or differ between commands."""

EMPTY_VALUES = ("", "false")
"""Values that do not ask for anything, whatever the parameter."""

HARMLESS: Mapping[str, tuple[str, ...]] = {
    "cachemode": ("none",),
    "hypervisorsnapshotreserve": ("0",),
    "internetprotocol": ("ipv4",),
    "isolationmethod": ("vlan",),
}
"""Values, by parameter, that ask for what is the case without them; they are accepted and have no effect."""


def is_harmless(name: str, value: str) -> bool:
    """Return whether a value of an unsupported parameter requests nothing, so that the parameter can be ignored."""
    return value.lower() in EMPTY_VALUES or value.lower() in HARMLESS.get(name, ())
