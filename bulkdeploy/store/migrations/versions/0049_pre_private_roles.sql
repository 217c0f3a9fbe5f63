-- Roles that only root admins see and give to accounts.

ALTER TABLE roles ADD COLUMN is_public BOOLEAN DEFAULT true NOT NULL;

COMMENT ON COLUMN roles.is_public IS 'false: only root admins see it';
