"""Response fields of CloudStack that have a constant value in this service, by kind of object."""

from bulkdeploy.declare.response_fields import constant, constants, empty_map
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.compatibility import CLOUDSTACK_VERSION, MANAGEMENT_SERVER, MANAGEMENT_SERVER_ID

NO_AUTHENTICATOR = "there is no second factor"
NO_GPUS = "GPUs of hosts are not known"
NO_NSX = "there is no NSX"
NO_ROUTERS = "networks have no routers"
NO_TUNGSTEN = "there is no Tungsten Fabric"
ONE_ARCHITECTURE = "hosts of other architectures cannot be added"
ONE_SERVICE = "all processes of the service are one management server"

BY_THE_SERVICE = (
    constant("managementserverid", MANAGEMENT_SERVER_ID, ONE_SERVICE),
    constant("managementservername", MANAGEMENT_SERVER, ONE_SERVICE),
)
OF_CLUSTERS = (constant("arch", "x86_64", ONE_ARCHITECTURE),)
OF_DISK_OFFERINGS = (
    constant("encrypt", False, "volumes are not encrypted"),
    constant("disksizestrictness", False, "volumes can be resized"),
)
OF_HOSTS = (
    constant("managementserverid", MANAGEMENT_SERVER_ID, ONE_SERVICE, ROOT_ADMIN_ONLY),
    constant("managementservername", MANAGEMENT_SERVER, ONE_SERVICE, ROOT_ADMIN_ONLY),
    constant(
        "version", CLOUDSTACK_VERSION, "hosts run no agent; this is the version of the service", ROOT_ADMIN_ONLY
    ),
    constant("implicithosttags", "", "tags of hosts are those that operators give", ROOT_ADMIN_ONLY),
    constant("encryptionsupported", False, "volumes are not encrypted"),
    constant("instanceconversionsupported", False, "guests of other hypervisors are not converted"),
    *constants(0, NO_GPUS, "gputotal", "gpuused"),
    constant("gpugroup", (), NO_GPUS),
)
OF_IMAGES = (
    *constants(False, "hosts do not download images themselves", "directdownload", "deployasis"),
    constant("crossZones", False, "images are in the zones that they were registered for"),
    constant("forcks", False, "there are no Kubernetes clusters"),
    constant("bits", 64, "guests have 64 bits"),
    constant("childtemplates", (), "images consist of one file"),
)
OF_LOGINS = (
    constant("managementserverid", MANAGEMENT_SERVER_ID, ONE_SERVICE),
    *constants("", NO_AUTHENTICATOR, "issuerfor2fa", "providerfor2fa"),
)
OF_NETWORK_OFFERINGS = (
    *constants(False, NO_NSX, "fornsx", "supportsinternallb"),
    constant("fortungsten", False, NO_TUNGSTEN),
    *constants(False, NO_ROUTERS, "supportspublicaccess", "specifyasnumber"),
    constant("supportsstrechedl2subnet", False, "networks do not span zones"),
    constant("internetprotocol", "IPv4", "networks have IPv4 addresses only"),
)
OF_NETWORKS = (
    constant("redundantrouter", False, NO_ROUTERS),
    constant("strechedl2subnet", False, "networks do not span zones"),
    constant("supportsvmautoscaling", False, "there are no autoscale groups"),
    constant("internetprotocol", "IPv4", "networks have IPv4 addresses only"),
)
OF_POOLS = (
    empty_map("details", "pools have no settings of their own"),
    empty_map("storagecapabilities", "the capabilities of pools are not recorded"),
)
OF_ROLES = (constant("state", "enabled", "roles cannot be disabled"),)
OF_SERVICE_OFFERINGS = (
    constant("diskofferingstrictness", False, "the root disk is part of the offering"),
    constant("purgeresources", False, "records of expunged VMs are kept"),
    constant("gpudisplay", False, NO_GPUS),
    constant("gpucount", 0, NO_GPUS),
)
OF_USERS = (
    *constants(False, NO_AUTHENTICATOR, "is2faenabled", "is2famandated"),
    constant("usersource", "native", "users log in with passwords that the service stores"),
)
OF_VIRTUAL_MACHINES = (
    constant("forvirtualnetwork", False, NO_ROUTERS),
    constant("gpucount", 0, NO_GPUS),
    constant("readonlydetails", "", "no detail of a VM is read-only for all its users"),
)
OF_VOLUMES = (
    constant("quiescevm", False, "guests are not quiesced for snapshots"),
    constant("supportsstoragesnapshot", False, "the hypervisor creates snapshots, not the storage system"),
)
OF_ZONES = (
    constant("isnsxenabled", False, NO_NSX),
    *constants(False, NO_ROUTERS, "allowuserspecifyvrmtu", "routedmodeenabled"),
    constant("ismultiarch", False, ONE_ARCHITECTURE),
    *constants(0, NO_GPUS, "gputotal", "gpuused"),
)
