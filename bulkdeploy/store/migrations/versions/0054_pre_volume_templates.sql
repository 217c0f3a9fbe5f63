-- The VM whose volume a job is making a template of.

ALTER TABLE templates ADD COLUMN source_vm_id BIGINT;

COMMENT ON COLUMN templates.source_vm_id IS 'the VM whose volume a job is making it of; NULL: no job makes it';

CREATE INDEX ix_templates_source_vm_id ON templates (source_vm_id) WHERE source_vm_id IS NOT NULL;
