-- Managed deployments heal their VMs.

ALTER TABLE managed_deployments ADD COLUMN autoheal BOOLEAN DEFAULT false NOT NULL;

ALTER TABLE managed_deployments ADD COLUMN heal_after INTEGER DEFAULT 300 NOT NULL;

ALTER TABLE managed_deployments ADD COLUMN heal_at_once TEXT DEFAULT '1' NOT NULL;

ALTER TABLE managed_deployments ADD COLUMN heal_tries INTEGER DEFAULT 0 NOT NULL;

ALTER TABLE managed_deployments ADD COLUMN heal_broken INTEGER DEFAULT 0 NOT NULL;

ALTER TABLE managed_deployments ADD COLUMN next_heal TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL;

COMMENT ON COLUMN managed_deployments.autoheal IS 'heal broken VMs';

COMMENT ON COLUMN managed_deployments.heal_after IS 'seconds for which a VM is Stopped until it is broken';

COMMENT ON COLUMN managed_deployments.heal_at_once IS 'VMs that are healed at once: a number or a percentage';

COMMENT ON COLUMN managed_deployments.heal_tries IS 'tries that did not help';

COMMENT ON COLUMN managed_deployments.heal_broken IS 'broken VMs at the last try';

COMMENT ON COLUMN managed_deployments.next_heal IS 'when the sweeper next looks for broken VMs';
