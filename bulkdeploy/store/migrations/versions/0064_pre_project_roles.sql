-- Roles of projects, which restrict what members of a project may call for the project.

ALTER TABLE roles ADD COLUMN project_id BIGINT;

CREATE INDEX ix_roles_project_id ON roles (project_id) WHERE project_id IS NOT NULL;

COMMENT ON COLUMN roles.project_id IS 'the project whose members can have the role; NULL: a role of accounts';

ALTER TABLE project_accounts ADD COLUMN role_id BIGINT;

CREATE INDEX ix_project_accounts_restricted ON project_accounts (account_id) WHERE role_id IS NOT NULL;

COMMENT ON COLUMN project_accounts.role_id IS 'a role of the project; its rules restrict members that are Regular';

ALTER TABLE project_invitations ADD COLUMN role_id BIGINT;

COMMENT ON COLUMN project_invitations.role_id IS 'the role of the project that the account gets when it accepts';
