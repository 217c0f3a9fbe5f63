-- What guests used earlier, as sums over half hours.

CREATE TABLE guest_usage_intervals (
    vm_id BIGINT NOT NULL,
    begun TIMESTAMP WITH TIME ZONE NOT NULL,
    measurements INTEGER NOT NULL,
    cpu_shares BIGINT NOT NULL,
    memory_kib BIGINT NOT NULL,
    memory_used_kib BIGINT NOT NULL,
    received_kib BIGINT NOT NULL,
    sent_kib BIGINT NOT NULL,
    read_kib BIGINT NOT NULL,
    written_kib BIGINT NOT NULL,
    CONSTRAINT pk_guest_usage_intervals PRIMARY KEY (vm_id, begun)
) WITH (fillfactor = 80);

COMMENT ON COLUMN guest_usage_intervals.begun IS 'when the interval began';

COMMENT ON COLUMN guest_usage_intervals.measurements IS 'measurements that the sums are made of';

COMMENT ON COLUMN guest_usage_intervals.cpu_shares IS 'sum of hundredths of a percent';

COMMENT ON COLUMN guest_usage_intervals.memory_kib IS 'this and the next: sum over all measurements';

COMMENT ON COLUMN guest_usage_intervals.received_kib IS 'this and the rest: in the interval';

CREATE INDEX ix_guest_usage_intervals_begun ON guest_usage_intervals USING brin (begun);
