-- What guests used earlier, one row for each measurement after the first.

CREATE TABLE guest_usage_samples (
    vm_id BIGINT NOT NULL,
    seen TIMESTAMP WITH TIME ZONE NOT NULL,
    memory_kib BIGINT NOT NULL,
    unused_kib BIGINT,
    cpu_share INTEGER,
    received_kib BIGINT NOT NULL,
    sent_kib BIGINT NOT NULL,
    read_kib BIGINT NOT NULL,
    written_kib BIGINT NOT NULL,
    read_requests BIGINT NOT NULL,
    write_requests BIGINT NOT NULL,
    CONSTRAINT pk_guest_usage_samples PRIMARY KEY (vm_id, seen)
);

COMMENT ON COLUMN guest_usage_samples.seen IS 'when this was measured';

COMMENT ON COLUMN guest_usage_samples.cpu_share IS 'hundredths of a percent since the measurement before, as the rest';

CREATE INDEX ix_guest_usage_samples_seen ON guest_usage_samples USING brin (seen);
