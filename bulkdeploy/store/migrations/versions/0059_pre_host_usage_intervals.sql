-- What hosts used earlier, as sums over short and long intervals.

CREATE TABLE host_usage_intervals (
    host_id BIGINT NOT NULL,
    interval_s INTEGER NOT NULL,
    begun TIMESTAMP WITH TIME ZONE NOT NULL,
    measurements INTEGER NOT NULL,
    cpu_measurements INTEGER NOT NULL,
    cpu_shares BIGINT NOT NULL,
    memory_used_kib BIGINT NOT NULL,
    received_kib BIGINT NOT NULL,
    sent_kib BIGINT NOT NULL,
    CONSTRAINT pk_host_usage_intervals PRIMARY KEY (host_id, interval_s, begun)
) WITH (fillfactor = 80);

COMMENT ON COLUMN host_usage_intervals.interval_s IS 'length of the interval, seconds';

COMMENT ON COLUMN host_usage_intervals.begun IS 'when the interval began';

COMMENT ON COLUMN host_usage_intervals.measurements IS 'measurements that the sums are made of';

COMMENT ON COLUMN host_usage_intervals.cpu_measurements IS 'those of them with a share of the cores';

COMMENT ON COLUMN host_usage_intervals.cpu_shares IS 'sum of hundredths of a percent';

COMMENT ON COLUMN host_usage_intervals.memory_used_kib IS 'sum over all measurements';

COMMENT ON COLUMN host_usage_intervals.received_kib IS 'what its guests received in the interval';

CREATE INDEX ix_host_usage_intervals_begun ON host_usage_intervals USING brin (begun);
