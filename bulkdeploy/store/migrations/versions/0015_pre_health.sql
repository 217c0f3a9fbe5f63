-- What only one process knew and readers of the health are told: failed driver calls, the last audit.

CREATE TABLE driver_errors (
    minute TIMESTAMP WITH TIME ZONE NOT NULL, 
    hypervisor TEXT NOT NULL, 
    step TEXT NOT NULL, 
    kind TEXT NOT NULL, 
    errors INTEGER NOT NULL, 
    CONSTRAINT pk_driver_errors PRIMARY KEY (minute, hypervisor, step, kind)
);

COMMENT ON TABLE driver_errors IS 'failed driver calls of the last day, by minute';

COMMENT ON COLUMN driver_errors.kind IS 'transient, permanent, stale or defect';

CREATE TABLE last_audit (
    one BOOLEAN DEFAULT true NOT NULL, 
    ended TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, 
    compared INTEGER NOT NULL, 
    breaches INTEGER NOT NULL, 
    broken JSONB NOT NULL, 
    CONSTRAINT pk_last_audit PRIMARY KEY (one)
);

COMMENT ON COLUMN last_audit.one IS 'there is one row at most';

COMMENT ON COLUMN last_audit.broken IS 'the broken promises: promise, breaches, the first of these';

-- Which call made a job.

ALTER TABLE async_jobs ADD COLUMN request_id TEXT;

COMMENT ON COLUMN async_jobs.request_id IS 'of the call that made it; NULL: no call did';

-- In other words.

COMMENT ON COLUMN image_stores.capacity_bytes IS 'NULL: unknown';
