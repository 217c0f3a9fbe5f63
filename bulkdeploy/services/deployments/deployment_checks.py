"""The rules of a deploy call that do not depend on capacity (one file: they are checked in one order).

The order of the checks is that of cloudstack-protocol.md 0.4 and 5.3; the error is about the first violated rule.
The checks only read, with two exceptions: an owner's missing ``default`` security group and missing first network
are created in the same transaction.
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import AccountState, Caller, Owner
from bulkdeploy.domain.deployments.deployment import (
    DeployCall,
    DeployRequest,
    DeploySpec,
    DiskOfferingFacts,
    OfferingFacts,
    TemplateFacts,
    UserDataPolicy,
    Variant,
    ZoneFacts,
)
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import (
    InvalidCombination,
    InvalidParameter,
    OwnerDisabled,
    PermissionDenied,
)
from bulkdeploy.domain.infrastructure.topology import HypervisorType, StorageType, TemplateKind
from bulkdeploy.domain.virtual_machines.firmware import UEFI, BootMode, BootType
from bulkdeploy.domain.virtual_machines.leases import LEASES_ENABLED, Lease, choose_lease
from bulkdeploy.services.deployments.deployment_groups import check_affinity_groups, check_key_pairs
from bulkdeploy.services.deployments.deployment_names import check_host_names
from bulkdeploy.services.deployments.deployment_networks import choose_networks, choose_security_groups
from bulkdeploy.services.deployments.deployment_sizes import vm_disks, vm_sizes
from bulkdeploy.services.deployments.list_entries import entry_of
from bulkdeploy.services.deployments.registered_user_data import registered_content
from bulkdeploy.services.deployments.user_data import check_user_data
from bulkdeploy.services.given_details import check_given_details
from bulkdeploy.services.ownership import require_open_zones, resolve_owner
from bulkdeploy.store.configuration.configurations import Configuration
from bulkdeploy.store.deployments import deployment_facts as facts


class KnownSpecs:
    """Checked specifications of a transaction's calls, so that requests that differ only in names are checked once.

    Requests within one call always differ in more than names, so only requests of earlier calls are compared.
    """

    def __init__(self) -> None:
        self._known: list[tuple[Caller, DeployRequest, DeploySpec]] = []

    def find(self, caller: Caller, request: DeployRequest) -> DeploySpec | None:
        """Return the specification of an equal earlier request of the same caller, or None if there is none."""
        if not self._known:
            return None
        alike = _but_for_names(request)
        for whose, known, spec in self._known:
            if known == alike and whose == caller:
                return replace(spec, request=request)
        return None

    def add(self, call: DeployCall, specs: Sequence[DeploySpec]) -> None:
        """Store the specifications of a call's requests for later calls."""
        self._known += [(call.caller, _but_for_names(spec.request), spec) for spec in specs]


def _but_for_names(request: DeployRequest) -> DeployRequest:
    return replace(request, count=1, vms=(), name_prefix=None, fingerprint=b"", plan_fingerprint=b"")


def check_deployments(
    connection: Connection, configuration: Configuration, call: DeployCall, known: KnownSpecs
) -> list[DeploySpec]:
    """Check all requests of a call, and return the specification of the VMs of each request.

    Raises:
        InvalidParameter, InvalidCombination, PermissionDenied, OwnerDisabled: about the first rule that the call
        violates.
    """
    _check_count(configuration, call)
    _check_list(call)
    specs = []
    for request in call.requests:
        check_host_names(request, listed=call.listed)
        spec = known.find(call.caller, request)
        if spec is None:
            with entry_of(call, request):
                spec = _check_request(connection, configuration, call.caller, request)
        specs.append(spec)
    known.add(call, specs)
    return specs


def _check_request(
    connection: Connection, configuration: Configuration, caller: Caller, request: DeployRequest
) -> DeploySpec:
    owner = resolve_owner(connection, caller, request.account, request.domain_id, request.project_id)
    state = facts.account_state(connection, owner.account_id)
    if state is not AccountState.ENABLED:
        raise OwnerDisabled(owner.account_name, state.value)
    zone = _check_zone(connection, caller, request, owner)
    offering = check_offering(connection, request, owner, zone)
    cpu_number, cpu_mhz, memory_mib = vm_sizes(configuration, offering, request)
    disk_offerings = _check_disk_offerings(connection, request, owner, zone)
    template = _check_template(connection, request, owner, zone)
    check_variant(template, request.variant)
    check_given_details(caller, request.details, "details")
    uefi = _check_firmware(request, template)
    hypervisor = _check_hypervisor(request, template)
    _check_pins(connection, request, zone)
    disks = vm_disks(configuration, request, offering, disk_offerings, template)
    networks = choose_networks(connection, caller, request, owner, zone)
    security_groups = choose_security_groups(connection, request, owner, zone, networks, hypervisor)
    affinity_groups = check_affinity_groups(connection, request, owner)
    check_key_pairs(connection, request.keypairs, owner, request.keypairs_parameter)
    user_data = _user_data(connection, configuration, caller, request, template)
    if networks:
        _check_user_data_service(request, template, networks[0].name, served=networks[0].has_user_data)
    return DeploySpec(
        request=request,
        owner=owner,
        zone=zone,
        offering=offering,
        template=template,
        hypervisor=hypervisor,
        cpu_number=cpu_number,
        cpu_mhz=cpu_mhz,
        memory_mib=memory_mib,
        disks=disks,
        networks=networks,
        security_group_ids=security_groups,
        affinity_groups=affinity_groups,
        user_data=user_data,
        uefi=uefi,
        lease=_lease(configuration, request, offering),
    )


def check_variant(template: TemplateFacts, variant: Variant, parameter: str = "templatevariant") -> None:
    """Raise InvalidParameter unless the template declares the requested variant.

    A variant is required if the template declares variants. A forced variant need not be declared.

    Raises:
        InvalidParameter: the template does not declare the variant, or it declares variants and none was chosen.
    """
    declared = ", ".join(template.variants) or "none"
    if variant.name is None and template.variants:
        raise InvalidParameter(parameter, None, f"template {template.name} has variants, choose one: {declared}")
    if variant.name is not None and variant.name not in template.variants and not variant.is_forced:
        rule = (
            f"template {template.name} declares these variants: {declared}; forcetemplatevariant=true allows others"
        )
        raise InvalidParameter(parameter, variant.name, rule)


def _check_firmware(request: DeployRequest, template: TemplateFacts) -> BootMode | None:
    """Return the UEFI mode that the call or the template requires, or None if guests boot with BIOS."""
    if request.boot_type is None and template.uefi is not None:
        try:
            return request.boot_mode or BootMode(template.uefi)
        except ValueError as error:
            rule = f"the detail {UEFI} of template {template.name} must be {' or '.join(BootMode)}: {template.uefi}"
            raise InvalidParameter("templateid", request.shown("templateid", template.id), rule) from error
    if request.boot_type is BootType.UEFI:
        return request.boot_mode or BootMode.LEGACY
    if request.boot_mode is BootMode.SECURE:
        raise InvalidCombination(("bootmode", "boottype"), "bootmode SECURE requires boottype=UEFI")
    return None


def _user_data(
    connection: Connection,
    configuration: Configuration,
    caller: Caller,
    request: DeployRequest,
    template: TemplateFacts,
) -> str | None:
    """Return the user data of the guests in base64, or None if there is none.

    The user data is the given text, the registered user data that the request names, or the user data that is
    linked to the template.
    """
    parameter = "userdata" if request.user_data else "userdataid"
    is_given = bool(request.user_data) or request.registered_user_data is not None
    if is_given and template.user_data is not None and template.user_data_policy is UserDataPolicy.DENY_OVERRIDE:
        rule = f"the user data of template {template.name} cannot be overridden: its policy is DENYOVERRIDE"
        raise InvalidCombination((parameter, "templateid"), f"{parameter} must not be given: {rule}")
    if request.user_data_details and not is_given and template.user_data is None:
        raise InvalidCombination(
            ("userdatadetails", "userdata", "userdataid"),
            "userdatadetails must be given with user data, by userdata or userdataid",
        )
    if request.registered_user_data is not None:
        return registered_content(connection, caller, request.registered_user_data)
    if not request.user_data:
        return template.user_data
    return check_user_data(
        request.user_data, method=request.method, most=configuration.number("vm.userdata.max.length")
    )


def _check_count(configuration: Configuration, call: DeployCall) -> None:
    """Check the requested number of VMs, before any row is read."""
    count, least = call.count, call.shared.minimum_count
    parameter = "virtualmachines" if call.listed else "virtualmachinecount"
    if count <= 0:
        raise InvalidParameter(parameter, count, "it must be a positive number")
    most = configuration.number("virtual.machine.max.count.per.bulk.call")
    if count > most:
        rule = f"virtual.machine.max.count.per.bulk.call allows at most {most}"
        raise InvalidParameter(parameter, f"{count} VMs" if call.listed else count, rule)
    if least is not None and not 1 <= least <= count:
        raise InvalidParameter("minimumcount", least, f"it must be between 1 and virtualmachinecount, {count}")


def _check_list(call: DeployCall) -> None:
    """Check the entries of a call's list against each other.

    No two VMs may have the same name. Either all entries are pinned to a part of the zone, or none is.
    """
    if not call.listed:
        return
    seen: dict[str, int] = {}
    for vm in sorted((vm for request in call.requests for vm in request.vms), key=lambda vm: vm.entry):
        if vm.name is None:
            continue
        first = seen.setdefault(vm.name.lower(), vm.entry)
        if first != vm.entry:
            rule = f"virtualmachines[{first}] has this name, too; the names of a call must be different"
            raise InvalidParameter(f"virtualmachines[{vm.entry}].name", vm.name, rule)
    pinned: list[int] = []
    free: list[int] = []
    for request in call.requests:
        pins = (request.pod_id, request.cluster_id, request.host_id)
        (free if pins == (None, None, None) else pinned).append(request.vms[0].entry)
    if pinned and free:
        raise InvalidCombination(
            ("podid", "clusterid", "hostid"),
            "podid, clusterid or hostid must be given for all virtualmachines or for none: "
            f"virtualmachines[{min(pinned)}] has one and virtualmachines[{min(free)}] has none",
        )


def _check_zone(connection: Connection, caller: Caller, request: DeployRequest, owner: Owner) -> ZoneFacts:
    zone = facts.read_zone(connection, request.zone_id)
    if zone is None:
        raise InvalidParameter("zoneid", request.shown("zoneid", request.zone_id), "the zone was deleted")
    require_open_zones(connection, [(owner, zone.id, zone.uuid)])
    if not zone.enabled and not caller.is_root_admin:
        raise PermissionDenied(f"Cannot perform this operation, Zone is currently disabled: {zone.uuid}")
    return zone


def _lease(configuration: Configuration, request: DeployRequest, offering: OfferingFacts) -> Lease | None:
    if not configuration.flag(LEASES_ENABLED):
        return None
    return choose_lease(request.lease_days, request.lease_action, offering.lease_days, offering.lease_action)


def check_offering(connection: Connection, request: DeployRequest, owner: Owner, zone: ZoneFacts) -> OfferingFacts:
    """Return the facts of the service offering, after checking that the owner may use the offering in the zone.

    Raises:
        InvalidParameter, InvalidCombination, PermissionDenied: the owner may not use the offering in the zone.
    """
    offering = facts.read_offering(connection, request.service_offering_id)
    if offering is None or not offering.active:
        raise InvalidParameter(
            "serviceofferingid",
            request.shown("serviceofferingid", request.service_offering_id),
            "the offering is not active",
        )
    check_available(
        offering, "serviceofferingid", request.shown("serviceofferingid", request.service_offering_id), owner, zone
    )
    if offering.storage_type is StorageType.LOCAL and not zone.local_storage_enabled:
        raise InvalidCombination(
            ("zoneid", "serviceofferingid"),
            f"Zone {zone.name} is not configured to use local storage but service offering {offering.name} uses it",
        )
    return offering


def check_available(
    offering: OfferingFacts | DiskOfferingFacts, parameter: str, shown: str, owner: Owner, zone: ZoneFacts
) -> None:
    """Raise an error if the owner may not use an offering, or if the offering is not available in the zone.

    An offering can be restricted to domains, which includes the domains below them, and to zones. Root admins may
    use offerings of all domains. ``shown`` is the offering as the caller named it.
    """
    lineage = [int(part) for part in owner.lineage.strip("/").split("/")]
    if offering.domain_ids and not owner.is_root_admin and not set(offering.domain_ids) & set(lineage):
        raise PermissionDenied(f"Account {owner.account_name} does not have permission to use offering {shown}")
    if offering.zone_ids and zone.id not in offering.zone_ids:
        raise InvalidParameter(parameter, offering.name, f"the offering is not available in zone {zone.name}")


def usable_disk_offering(
    connection: Connection, owner: Owner, place: ZoneFacts, offering: EntityRef
) -> DiskOfferingFacts:
    """Return a disk offering that the owner may use in this zone.

    Raises:
        InvalidParameter, InvalidCombination: the offering is not active, or not available in this zone.
        PermissionDenied: the offering is not available to this owner.
    """
    found = facts.read_disk_offering(connection, offering.id)
    if found is None or not found.active:
        raise InvalidParameter("diskofferingid", str(offering.uuid), "the disk offering is not active")
    check_available(found, "diskofferingid", str(offering.uuid), owner, place)
    if found.storage_type is StorageType.LOCAL and not place.local_storage_enabled:
        raise InvalidCombination(
            ("zoneid", "diskofferingid"),
            f"zone {place.name} does not use local storage and disk offering {found.name} does",
        )
    return found


def _check_disk_offerings(
    connection: Connection, request: DeployRequest, owner: Owner, zone: ZoneFacts
) -> dict[int, DiskOfferingFacts]:
    """Return all disk offerings that the call names, by internal id.

    Raises:
        InvalidParameter, InvalidCombination: an offering is not active, does not fit the zone or the size of its
        disk, or is not available to the owner.
    """
    named = {"diskofferingid": request.disk_offering_id, "overridediskofferingid": request.root_disk_offering_id}
    wanted = [(parameter, row_id) for parameter, row_id in named.items() if row_id is not None]
    wanted += [(disk.parameter, disk.offering_id) for disk in request.data_disks]
    return {row_id: _check_disk_offering(connection, request, owner, zone, each, row_id) for each, row_id in wanted}


def _check_disk_offering(
    connection: Connection, request: DeployRequest, owner: Owner, zone: ZoneFacts, parameter: str, row_id: int
) -> DiskOfferingFacts:
    shown = request.shown(parameter, row_id)
    offering = facts.read_disk_offering(connection, row_id)
    if offering is None or not offering.active:
        raise InvalidParameter(parameter, shown, "the disk offering is not active")
    check_available(offering, parameter, shown, owner, zone)
    if offering.storage_type is StorageType.LOCAL and not zone.local_storage_enabled:
        raise InvalidCombination(
            ("zoneid", parameter),
            f"Zone {zone.name} is not configured to use local storage but disk offering {offering.name} uses it",
        )
    return offering


def _check_template(connection: Connection, request: DeployRequest, owner: Owner, zone: ZoneFacts) -> TemplateFacts:
    """Return the template, after checking that the owner may use it (cloudstack-protocol.md 0.3).

    The permissions of the caller do not matter.
    """
    template = facts.read_template(connection, request.template_id, zone.id, owner)
    if template is None:
        raise InvalidParameter(
            "templateid", request.shown("templateid", request.template_id), "the template was deleted"
        )
    usable = template.is_public or template.shared_with_owner or template.owner_id == owner.account_id
    if not usable and not owner.is_root_admin:
        raise PermissionDenied(
            f"Account {owner.account_name} does not have permission to use template "
            f"{request.shown('templateid', request.template_id)}"
        )
    if not template.ready:
        raise InvalidParameter(
            "templateid",
            template.name,
            f"The template {template.name} is not available for use: it is not ready in zone {zone.name}",
        )
    if template.kind is TemplateKind.ISO:
        if not template.bootable:
            raise InvalidParameter(
                "templateid",
                template.name,
                f"Installing from ISO requires an ISO that is bootable: {template.name}",
            )
        if request.disk_offering_id is None and request.root_disk_offering_id is None:
            raise InvalidCombination(
                ("templateid", "diskofferingid"),
                "Installing from ISO requires a disk offering to be specified for the root disk.",
            )
    return template


def _check_hypervisor(request: DeployRequest, template: TemplateFacts) -> str:
    requested = None if request.hypervisor is None else HypervisorType.parse(request.hypervisor)
    if request.hypervisor is not None and requested is None:
        known = ", ".join(kind.value for kind in HypervisorType)
        raise InvalidParameter("hypervisor", request.hypervisor, f"it must be one of {known}")
    if template.hypervisor is None:
        if requested is None:
            raise InvalidParameter(
                "hypervisor",
                None,
                "hypervisor parameter is needed to deploy VM or the hypervisor parameter value passed is "
                f"invalid: template {template.name} names none",
            )
        return requested.value
    if requested is not None and requested.value.lower() != template.hypervisor.lower():
        raise InvalidParameter(
            "hypervisor",
            request.hypervisor,
            "Hypervisor passed to the deployVm call, is different from the hypervisor type of the template: "
            f"{template.name} is for {template.hypervisor}",
        )
    return template.hypervisor


def _check_pins(connection: Connection, request: DeployRequest, zone: ZoneFacts) -> None:
    """Check that a pinned pod, cluster or host is in the zone, and that a pinned host can run VMs."""
    for parameter, table, row_id in (
        ("podid", "pods", request.pod_id),
        ("clusterid", "clusters", request.cluster_id),
    ):
        if row_id is not None and facts.pin_zone(connection, table, row_id) != zone.id:
            raise InvalidParameter(parameter, request.shown(parameter, row_id), f"it is not in zone {zone.name}")
    if request.host_id is not None:
        problem = facts.host_problem(connection, request.host_id, zone.id)
        if problem is not None:
            raise InvalidParameter(
                "hostid", request.shown("hostid", request.host_id), f"Unable to deploy the VM as {problem}"
            )


def _check_user_data_service(
    request: DeployRequest, template: TemplateFacts, network: str, *, served: bool
) -> None:
    """Check that the default network has the UserData service if the call needs it."""
    if served:
        return
    if request.user_data is not None or request.registered_user_data is not None:
        what = "UserData is provided while deploying the VM"
    elif request.keypairs:
        what = "SSH keypair is provided while deploying the VM"
    elif template.password_enabled:
        what = f"template {template.name} is password enabled"
    else:
        return
    raise InvalidCombination(
        ("userdata", "networkids"),
        f"Unable to deploy VM as {what}, but there is no support for UserData service in the default network "
        f"{network}",
    )
