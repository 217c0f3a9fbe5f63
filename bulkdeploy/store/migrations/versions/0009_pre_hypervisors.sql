-- What is remembered for drivers whose hypervisors can not: fences of guests, and copies of templates in pools.

CREATE TABLE guest_fences (
    guest_uuid UUID NOT NULL, 
    fence BIGINT NOT NULL, 
    host_uuid UUID, 
    destination_uuid UUID, 
    volume_uuids UUID[] DEFAULT '{}' NOT NULL, 
    updated TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, 
    CONSTRAINT pk_guest_fences PRIMARY KEY (guest_uuid)
);

CREATE INDEX ix_guest_fences_volumes ON guest_fences USING gin (volume_uuids) WHERE host_uuid IS NOT NULL;

COMMENT ON COLUMN guest_fences.fence IS 'the highest seen';

COMMENT ON COLUMN guest_fences.host_uuid IS 'NULL: it is on none';

COMMENT ON COLUMN guest_fences.destination_uuid IS 'where it moves; NULL: nowhere';

COMMENT ON COLUMN guest_fences.volume_uuids IS 'held with the host';

CREATE TABLE template_copies (
    template_uuid UUID NOT NULL, 
    pool_uuid UUID NOT NULL, 
    attempt INTEGER DEFAULT 1 NOT NULL, 
    ready BOOLEAN DEFAULT false NOT NULL, 
    percent SMALLINT DEFAULT 0 NOT NULL, 
    renewed TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, 
    CONSTRAINT pk_template_copies PRIMARY KEY (template_uuid, pool_uuid)
);

COMMENT ON COLUMN template_copies.attempt IS 'part of the copy''s name';
