-- What guests, hosts and storage pools use, as hypervisors measured it last.

CREATE TABLE guest_usage (
    vm_id BIGINT NOT NULL,
    seen TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    cpu_ns BIGINT NOT NULL,
    received_bytes BIGINT NOT NULL,
    sent_bytes BIGINT NOT NULL,
    read_bytes BIGINT NOT NULL,
    written_bytes BIGINT NOT NULL,
    reads BIGINT NOT NULL,
    writes BIGINT NOT NULL,
    memory_kib BIGINT NOT NULL,
    unused_kib BIGINT,
    cpu_share INTEGER,
    received_kib BIGINT,
    sent_kib BIGINT,
    read_kib BIGINT,
    written_kib BIGINT,
    read_requests BIGINT,
    write_requests BIGINT,
    CONSTRAINT pk_guest_usage PRIMARY KEY (vm_id)
) WITH (fillfactor = 50);

COMMENT ON COLUMN guest_usage.seen IS 'when this was measured';

COMMENT ON COLUMN guest_usage.cpu_ns IS 'this and the other totals: since the guest was started';

COMMENT ON COLUMN guest_usage.unused_kib IS 'NULL: the guest does not report it';

COMMENT ON COLUMN guest_usage.cpu_share IS 'hundredths of a percent since the last measurement; NULL: there is none';

COMMENT ON COLUMN guest_usage.received_kib IS 'this and the rest: since the last measurement';

CREATE TABLE host_usage (
    host_id BIGINT NOT NULL,
    seen TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    busy_ns BIGINT NOT NULL,
    total_ns BIGINT NOT NULL,
    memory_used_kib BIGINT NOT NULL,
    cpu_share INTEGER,
    received_kib BIGINT NOT NULL,
    sent_kib BIGINT NOT NULL,
    CONSTRAINT pk_host_usage PRIMARY KEY (host_id)
) WITH (fillfactor = 50);

COMMENT ON COLUMN host_usage.seen IS 'when this was measured';

COMMENT ON COLUMN host_usage.busy_ns IS 'since the host was booted, over all cores';

COMMENT ON COLUMN host_usage.cpu_share IS 'hundredths of a percent since the last measurement; NULL: there is none';

COMMENT ON COLUMN host_usage.received_kib IS 'of its guests, since the last measurement';

CREATE TABLE pool_usage (
    pool_id BIGINT NOT NULL,
    seen TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    used_bytes BIGINT NOT NULL,
    CONSTRAINT pk_pool_usage PRIMARY KEY (pool_id)
);

COMMENT ON COLUMN pool_usage.seen IS 'when this was measured';
