ALTER TABLE async_jobs ADD COLUMN traceparent text;
COMMENT ON COLUMN async_jobs.traceparent IS 'the span that made it, where there are traces';
