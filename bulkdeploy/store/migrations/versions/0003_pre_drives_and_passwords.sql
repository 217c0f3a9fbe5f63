-- What VMs have in their drives, and the passwords that their guests are started with.

ALTER TABLE virtual_machines ADD COLUMN password_encrypted BYTEA;

COMMENT ON COLUMN virtual_machines.password_encrypted IS 'given to the guest when it starts; NULL: the image''s own';

ALTER TABLE virtual_machines ADD COLUMN iso_id BIGINT;

COMMENT ON COLUMN virtual_machines.iso_id IS 'in its drive; 0: none; NULL: the ISO that it was made from, if any';
