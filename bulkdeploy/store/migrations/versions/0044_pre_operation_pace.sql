-- How many jobs of a bulk operation are under way at once, and how many may fail.

ALTER TABLE bulk_operations ADD COLUMN max_parallel INTEGER;

ALTER TABLE bulk_operations ADD COLUMN max_failures INTEGER;

COMMENT ON COLUMN bulk_operations.max_parallel IS 'jobs under way at once; the others are held; NULL: all of them';

COMMENT ON COLUMN bulk_operations.max_failures IS 'if more jobs fail, those that have not begun are cancelled; NULL: never';

CREATE INDEX ix_async_jobs_held ON async_jobs (operation_id, id) WHERE status = 0 AND phase = 'held';
