-- Until this revision, the type of a role decided about an API that none of its rules matched. From this revision on
-- only rules allow anything, as in CloudStack. A role without any rule was one that could do what its type could do: it
-- gets these rules, default roles among them. A role that has rules keeps them, and nothing beyond them is allowed.
-- After the migrations, store/database/bootstrap.py gives the default roles the rules of the release.

INSERT INTO role_rules (role_id, rule, permission, sort_order)
SELECT r.id, '*', 'allow', 0 FROM roles r
WHERE r.role_type = 'Admin' AND r.removed IS NULL
    AND NOT EXISTS (SELECT FROM role_rules x WHERE x.role_id = r.id);

WITH declared (role_types, apis) AS (VALUES
    (ARRAY['ResourceAdmin', 'DomainAdmin', 'User'], '
        activateProject addAccountToProject addIpToNic addNicToVirtualMachine archiveEvents
        attachIso attachVolume authorizeSecurityGroupEgress authorizeSecurityGroupIngress
        changeServiceForVirtualMachine createAffinityGroup createConsoleEndpoint createInstanceGroup
        createNetwork createProject createSSHKeyPair createSecurityGroup createSnapshot createTags
        createVMSnapshot createVolume deleteAccountFromProject deleteAffinityGroup deleteEvents
        deleteInstanceGroup deleteIso deleteNetwork deleteProject deleteSSHKeyPair
        deleteSecurityGroup deleteSnapshot deleteTags deleteTemplate deleteUserData deleteVMSnapshot
        deleteVolume deployVirtualMachine destroyVirtualMachine destroyVolume detachIso detachVolume
        expungeVirtualMachine getApiLimit getUserKeys getVirtualMachineUserData listAccounts
        listAffinityGroupTypes listAffinityGroups listAnnotations listApis listAsyncJobs
        listAutoScaleVmGroups listCapabilities listDetailOptions listDiskOfferings
        listEgressFirewallRules listEventTypes listEvents listFirewallRules listHypervisors
        listInstanceGroups listIpForwardingRules listIsoPermissions listIsos listKubernetesClusters
        listLdapConfigurations listLoadBalancerRules listNetworkOfferings listNetworks listNics
        listOsCategories listOsTypes listPortForwardingRules listProjectAccounts listProjects
        listPublicIpAddresses listResourceIcon listResourceLimits listSSHKeyPairs listSecurityGroups
        listServiceOfferings listSnapshotPolicies listSnapshots listTags listTemplatePermissions
        listTemplates listUserData listUsers listVMSnapshot listVPCs listVirtualMachines
        listVirtualMachinesMetrics listVolumes listVolumesMetrics listZones queryAsyncJobResult
        rebootVirtualMachine recoverVirtualMachine registerIso registerSSHKeyPair registerTemplate
        registerUserData registerUserKeys removeIpFromNic removeNicFromVirtualMachine
        resetPasswordForVirtualMachine resetSSHKeyForVirtualMachine resetUserDataForVirtualMachine
        resizeVolume restartNetwork restoreVirtualMachine revertSnapshot revertToVMSnapshot
        revokeSecurityGroupEgress revokeSecurityGroupIngress scaleVirtualMachine startVirtualMachine
        stopVirtualMachine suspendProject updateDefaultNicForVirtualMachine updateInstanceGroup
        updateIso updateIsoPermissions updateNetwork updateProject updateTemplate
        updateTemplatePermissions updateUser updateVMAffinityGroup updateVirtualMachine
        updateVmNicIp updateVolume'),
    (ARRAY['ResourceAdmin'], '
        addHost archiveAlerts deleteAlerts deleteHost listAlerts listCapacity listClusters
        listClustersMetrics listDedicatedGuestVlanRanges listDeploymentPlanners listGuestOsMapping
        listHostTags listHosts listHostsMetrics listInfrastructure listInternalLoadBalancerVMs
        listPods listRouters listStorageNetworkIpRange listStoragePools listStoragePoolsMetrics
        listStorageTags listSystemVms listZonesMetrics'),
    (ARRAY['ResourceAdmin', 'DomainAdmin'], '
        assignVirtualMachine createAccount createDiskOffering createServiceOffering createUser
        deleteAccount deleteDiskOffering deleteServiceOffering deleteUser disableAccount disableUser
        enableAccount enableUser listDomainChildren listDomains lockAccount lockUser updateAccount
        updateDiskOffering updateResourceCount updateResourceLimit updateServiceOffering'),
    (ARRAY['DomainAdmin'], '
        createDomain deleteDomain listConfigurationGroups listConfigurations updateConfiguration')
), rules AS (
    SELECT role_type, api FROM declared, unnest(role_types) AS role_type,
        regexp_split_to_table(btrim(apis, E' \n'), '\s+') AS api
)
INSERT INTO role_rules (role_id, rule, permission, sort_order)
SELECT r.id, rules.api, 'allow', row_number() OVER (PARTITION BY r.id ORDER BY rules.api) - 1
FROM roles r JOIN rules ON rules.role_type = r.role_type
WHERE r.removed IS NULL
    AND NOT EXISTS (SELECT FROM role_rules x WHERE x.role_id = r.id);
