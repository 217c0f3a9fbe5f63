-- A reboot of a VM of a volatile service offering replaces its root disk by a new one from its template.

ALTER TABLE service_offerings ADD COLUMN is_volatile BOOLEAN DEFAULT false NOT NULL;

COMMENT ON COLUMN service_offerings.is_volatile IS 'whether a reboot replaces the root disk of a VM by a new one';
