"""The response fields of templates and ISOs, and the common parameters of both lists."""

from bulkdeploy.commands.constant_fields import OF_IMAGES
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT, SHOW_ICON
from bulkdeploy.declare.parameters import Parameter, boolean, mapping, string, uuid
from bulkdeploy.declare.response_fields import (
    OWNER_FIELDS,
    TAGS,
    constant,
    flag,
    large_number,
    moment,
    objects,
    text,
    text_map,
)
from bulkdeploy.declare.responses import Field
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity

FILTER_WORDS = "featured, self, selfexecutable, sharedexecutable, executable, community, shared or all (admins)"

FIELDS: tuple[Field, ...] = (
    text("id", "its id"),
    text("name", "its name"),
    text("displaytext", "its description"),
    text("accountid", "the account that owns it"),
    *OWNER_FIELDS,
    text("zoneid", "the zone that this row is about"),
    text("zonename", "the zone's name"),
    flag("isready", "whether VMs can be made from it there"),
    text("status", "Download Complete, or how far it is"),
    text("format", "its format, such as QCOW2 or ISO"),
    text("hypervisor", "the hypervisor it is for; None where the caller names one"),
    text("templatetype", "USER, SYSTEM or BUILTIN"),
    text("templatetag", "a tag that a host must have", ROOT_ADMIN_ONLY),
    text("userdataid", "the registered user data that is linked to it"),
    text("userdataname", "the name of the registered user data"),
    text("userdataparams", "the names of the variables in the registered user data, separated by commas"),
    text("userdatapolicy", "whether a deploy call may give other user data: ALLOWOVERRIDE or DENYOVERRIDE"),
    text("ostypeid", "its guest OS type"),
    text("ostypename", "the guest OS type's name"),
    large_number("size", "size of the disk made from it, bytes"),
    large_number("physicalsize", "its own size, bytes"),
    flag("ispublic", "whether everybody may use it"),
    flag("isfeatured", "whether it is featured"),
    flag("isextractable", "whether it can be downloaded"),
    flag("bootable", "whether a VM can boot from it"),
    flag("passwordenabled", "whether passwords of its guests can be reset"),
    flag("sshkeyenabled", "whether SSH keys of its guests can be reset"),
    flag("requireshvm", "whether it needs hardware virtualisation"),
    flag("isdynamicallyscalable", "whether running VMs can be scaled"),
    text("url", "where it came from", ROOT_ADMIN_ONLY),
    text("checksum", "its checksum"),
    text("arch", "its CPU architecture"),
    text_map("details", "its details"),
    moment("created", "when it was registered"),
    moment("removed", "when it was deleted"),
    objects(
        "downloaddetails",
        "how far its download is, in the zone that this row is about",
        (
            text("datastore", "the zone, whose pools fetch it"),
            constant("datastoreRole", "Image", "images lie beside the volumes made from them"),
            text("downloadPercent", "how much of it was fetched"),
            text("downloadState", "DOWNLOADED, DOWNLOAD_IN_PROGRESS or DOWNLOAD_ERROR"),
        ),
    ),
    TAGS,
    *OF_IMAGES,
)

PARAMETERS: tuple[Parameter, ...] = (
    string("name", "only those of this name"),
    uuid("zoneid", Entity.ZONE, "only those in this zone"),
    string("hypervisor", "only those for this hypervisor"),
    boolean("isready", "only those that are ready in their zone, or only those that are not"),
    string("arch", "only those for this CPU architecture"),
    uuid("oscategoryid", Entity.OS_CATEGORY, "only those of this category of guest OS"),
    boolean("showremoved", "include deleted ones"),
    boolean("showunique", "return one row per template instead of one row per zone"),
    mapping("tags", "only those with these tags: tags[0].key, tags[0].value"),
    SHOW_ICON,
    *OWNER,
    *PROJECT,
    *PAGING,
)

ABOUT: tuple[Parameter, ...] = (
    uuid("ostypeid", Entity.OS_TYPE, "its guest OS type"),
    boolean("passwordenabled", "whether passwords of its guests can be reset"),
    boolean("isdynamicallyscalable", "whether running VMs can be scaled"),
)
ARCHITECTURE = string(
    "arch", "its CPU architecture; default x86_64", choices=("x86_64", "i686", "aarch64", "s390x")
)
DETAILS = mapping("details", "its details from now on, such as details[0].rootDiskController=scsi")
