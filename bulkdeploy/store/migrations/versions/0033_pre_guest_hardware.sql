-- What hosts said that the hardware of their guests can be, so that a cluster's guests get what all of its hosts have.

ALTER TABLE hosts ADD COLUMN guest_hardware TEXT;

COMMENT ON COLUMN hosts.guest_hardware IS
    'machine types and CPU that its guests can have, in its driver''s own words; NULL: it was not asked, or has none';
