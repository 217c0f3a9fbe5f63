"""The response fields of templates and ISOs, and the common parameters of both lists."""

from bulkdeploy.commands.constant_fields import OF_IMAGES
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT, SHOW_ICON
from bulkdeploy.declare.parameters import Parameter, boolean, mapping, string, uuid
from bulkdeploy.declare.response_fields import (
    HAS_ANNOTATIONS,
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
    text("id", "the id of the template or ISO"),
    text("name", "the name of the image"),
    text("displaytext", "the description of the image"),
    text("accountid", "the id of the account that owns the object; absent if a project owns it"),
    *OWNER_FIELDS,
    text("zoneid", "the zone that this row describes"),
    text("zonename", "the zone's name"),
    flag("isready", "whether VMs can be deployed from the image in this zone"),
    text("status", "Download Complete, or the progress of the download"),
    text("format", "the format of the image, such as QCOW2 or ISO"),
    text("hypervisor", "the hypervisor of the image; None: callers name the hypervisor when they deploy VMs"),
    text("templatetype", "USER, SYSTEM or BUILTIN"),
    text("templatetag", "a host tag; VMs of the template are placed only on hosts with this tag", ROOT_ADMIN_ONLY),
    text("userdataid", "the registered user data that is linked to the image"),
    text("userdataname", "the name of the registered user data"),
    text("userdataparams", "the names of the variables in the registered user data, separated by commas"),
    text("userdatapolicy", "whether a deploy call may override the user data: ALLOWOVERRIDE or DENYOVERRIDE"),
    text("ostypeid", "the guest OS type of the image"),
    text("ostypename", "the guest OS type's name"),
    large_number("size", "the size of disks that are created from the image, in bytes"),
    large_number("physicalsize", "the size of the image file, in bytes"),
    flag("ispublic", "whether all accounts may use the object"),
    flag("isfeatured", "whether the image is featured"),
    flag("isextractable", "whether users may download the image"),
    flag("bootable", "whether VMs can boot from the image"),
    flag("passwordenabled", "whether passwords of guests of the image can be reset"),
    flag("sshkeyenabled", "whether SSH keys of guests of the image can be reset"),
    flag("requireshvm", "whether guests of the image need hardware virtualization"),
    flag("isdynamicallyscalable", "whether running VMs can be scaled"),
    text("url", "the URL from which the image was registered", ROOT_ADMIN_ONLY),
    text("checksum", "the checksum of the image file"),
    text("arch", "the CPU architecture of the image"),
    text_map("details", "the details of the image"),
    moment("created", "when the image was registered"),
    moment("removed", "when the image was deleted"),
    objects(
        "downloaddetails",
        "the progress of the download in the zone that this row describes",
        (
            text("datastore", "the zone whose storage pools download the image"),
            constant(
                "datastoreRole", "Image", "images are stored in the pools of the volumes that are created from them"
            ),
            text("downloadPercent", "the downloaded share of the image, in percent"),
            text("downloadState", "DOWNLOADED, DOWNLOAD_IN_PROGRESS or DOWNLOAD_ERROR"),
        ),
    ),
    TAGS,
    *OF_IMAGES,
    HAS_ANNOTATIONS,
)

PARAMETERS: tuple[Parameter, ...] = (
    string("name", "only images with this name"),
    uuid("zoneid", Entity.ZONE, "only images in this zone"),
    string("hypervisor", "only images for this hypervisor"),
    boolean("isready", "true: only images that are ready in their zone; false: only images that are not"),
    string("arch", "only images for this CPU architecture"),
    uuid("oscategoryid", Entity.OS_CATEGORY, "only images whose guest OS type is in this category"),
    boolean("showremoved", "true: also deleted images"),
    boolean("showunique", "true: one row per image; default: one row per image and zone"),
    mapping("tags", "only objects with these tags: tags[0].key, tags[0].value"),
    SHOW_ICON,
    *OWNER,
    *PROJECT,
    *PAGING,
)

ABOUT: tuple[Parameter, ...] = (
    uuid("ostypeid", Entity.OS_TYPE, "the guest OS type of the image"),
    boolean("passwordenabled", "whether passwords of guests of the image can be reset"),
    boolean("isdynamicallyscalable", "whether running VMs can be scaled"),
)
ARCHITECTURE = string(
    "arch",
    "the CPU architecture of the template; initial value: x86_64",
    choices=("x86_64", "i686", "aarch64", "s390x"),
)
DETAILS = mapping(
    "details",
    "the new details of the template, which replace all present details, such as "
    "details[0].rootDiskController=scsi",
)
