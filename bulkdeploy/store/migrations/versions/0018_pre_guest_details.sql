-- What drivers keep of guests whose hypervisors have no place for it.

ALTER TABLE guest_fences ADD COLUMN details JSONB;

COMMENT ON COLUMN guest_fences.details IS 'what the driver keeps of the guest';
