-- Templates may have registered user data, which their VMs get.

ALTER TABLE templates ADD COLUMN user_data_id BIGINT;

ALTER TABLE templates ADD COLUMN user_data_policy TEXT;

COMMENT ON COLUMN templates.user_data_id IS 'registered user data that VMs get; NULL: none';

COMMENT ON COLUMN templates.user_data_policy IS 'a UserDataPolicy; NULL: there is no user data';

CREATE INDEX ix_templates_user_data_id ON templates (user_data_id) WHERE user_data_id IS NOT NULL;
