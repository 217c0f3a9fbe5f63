ALTER TABLE template_copies ADD COLUMN IF NOT EXISTS uuid UUID DEFAULT gen_random_uuid() NOT NULL;
ALTER TABLE template_copies ADD COLUMN IF NOT EXISTS file_bytes BIGINT;
ALTER TABLE templates ADD COLUMN IF NOT EXISTS fetched_bytes BIGINT DEFAULT 0 NOT NULL;
COMMENT ON COLUMN template_copies.uuid IS 'the consumer of its claim';
COMMENT ON COLUMN template_copies.file_bytes IS 'what it claims of its pool; NULL: nothing';
COMMENT ON COLUMN templates.fetched_bytes IS 'size of the file that was fetched; 0: none was';
