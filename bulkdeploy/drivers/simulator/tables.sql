-- The simulated hypervisors' own memory. Safe to run again; later columns join by
-- ALTER TABLE ... ADD COLUMN IF NOT EXISTS, below the table that they belong to.

CREATE SCHEMA IF NOT EXISTS simulator;

CREATE TABLE IF NOT EXISTS simulator.hosts (
    uuid uuid PRIMARY KEY,
    name text NOT NULL,
    cpu_cores integer NOT NULL CHECK (cpu_cores > 0),      -- physical
    cpu_mhz integer NOT NULL CHECK (cpu_mhz > 0),          -- of one core
    memory_mib bigint NOT NULL CHECK (memory_mib > 0),     -- physical
    cpu_mhz_limit bigint NOT NULL,                         -- what running guests may take, over-commit included
    memory_mib_limit bigint NOT NULL,
    guests_limit integer NOT NULL,
    cpu_mhz_used bigint NOT NULL DEFAULT 0,                -- what running guests take
    memory_mib_used bigint NOT NULL DEFAULT 0,
    guests_used integer NOT NULL DEFAULT 0,
    -- No "used <= limit": limits may be lowered below what runs, which then only blocks new guests.
    CHECK (cpu_mhz_used >= 0 AND memory_mib_used >= 0 AND guests_used >= 0)
) WITH (fillfactor = 50);
ALTER TABLE simulator.hosts ADD COLUMN IF NOT EXISTS is_off boolean NOT NULL DEFAULT false; -- fenced

ALTER TABLE simulator.hosts ADD COLUMN IF NOT EXISTS is_cut_off boolean NOT NULL DEFAULT false; -- runs, but cannot be reached

ALTER TABLE simulator.hosts ADD COLUMN IF NOT EXISTS is_bmc_dead boolean NOT NULL DEFAULT false; -- its management controller does not answer

-- A guest that runs on a host which was cut off, and was started elsewhere since: it runs twice.
CREATE TABLE IF NOT EXISTS simulator.stray_guests (
    guest_uuid uuid PRIMARY KEY,
    host_uuid uuid NOT NULL
);

-- A guest that is gone stays as a row with power 'Absent': it remembers the highest fence that was
-- seen, so that a paused caller which wakes up cannot make the guest anew.
CREATE TABLE IF NOT EXISTS simulator.guests (
    uuid uuid PRIMARY KEY,
    fence bigint NOT NULL,
    power text NOT NULL CHECK (power IN ('Running', 'Stopped', 'Absent')),
    host_uuid uuid,                                        -- no foreign key: its check would lock the host row
    name text NOT NULL DEFAULT '',
    cpu_number integer NOT NULL DEFAULT 0,
    cpu_mhz integer NOT NULL DEFAULT 0,
    memory_mib bigint NOT NULL DEFAULT 0,
    volume_uuids uuid[] NOT NULL DEFAULT '{}',
    changed timestamptz NOT NULL DEFAULT now(),
    CHECK ((power = 'Absent') = (host_uuid IS NULL))
) WITH (fillfactor = 80);
ALTER TABLE simulator.guests ADD COLUMN IF NOT EXISTS nic_uuids uuid[]; -- NULL: unknown
ALTER TABLE simulator.guests ADD COLUMN IF NOT EXISTS template_uuid uuid; -- of the root volume; NULL: not known
ALTER TABLE simulator.guests ADD COLUMN IF NOT EXISTS iso_uuid uuid; -- in its drive; NULL: none
ALTER TABLE simulator.guests ADD COLUMN IF NOT EXISTS nics jsonb; -- uuid, mac, network, ip of each; NULL: not known

CREATE TABLE IF NOT EXISTS simulator.volumes (
    uuid uuid PRIMARY KEY,
    pool_uuid uuid NOT NULL,
    size_bytes bigint NOT NULL CHECK (size_bytes > 0),
    guest_uuid uuid NOT NULL                               -- the guest that had it last
) WITH (fillfactor = 90);

ALTER TABLE simulator.volumes ADD COLUMN IF NOT EXISTS content text NOT NULL DEFAULT ''; -- what a guest would have written

CREATE TABLE IF NOT EXISTS simulator.snapshots (
    uuid uuid PRIMARY KEY,
    guest_uuid uuid NOT NULL,
    contents jsonb NOT NULL                                -- of its volumes at that moment, by their uuids
);
CREATE INDEX IF NOT EXISTS ix_snapshots_guest_uuid ON simulator.snapshots (guest_uuid);

CREATE TABLE IF NOT EXISTS simulator.templates (           -- made of volumes; others need no contents
    uuid uuid PRIMARY KEY,
    content text NOT NULL                                  -- of the volume at that moment
);

CREATE TABLE IF NOT EXISTS simulator.broken_units (        -- pools that a host can not read any more
    host_uuid uuid NOT NULL,
    pool_uuid uuid NOT NULL,
    PRIMARY KEY (host_uuid, pool_uuid)
);

CREATE TABLE IF NOT EXISTS simulator.files (
    host_uuid uuid NOT NULL,
    path text NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (host_uuid, path)
);
ALTER TABLE simulator.files ADD COLUMN IF NOT EXISTS mode integer NOT NULL DEFAULT 420; -- permission bits; 420: 0644

CREATE TABLE IF NOT EXISTS simulator.fault_rules (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host text,                                             -- name or uuid; NULL: every host
    step text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('transient', 'permanent', 'hang')),
    rate double precision NOT NULL DEFAULT 1 CHECK (rate BETWEEN 0 AND 1),
    remaining integer CHECK (remaining >= 0),              -- times that it still happens; NULL: for ever
    reason text NOT NULL DEFAULT 'simulated failure',
    hang_ms double precision CHECK (hang_ms >= 0),         -- NULL: until the caller gives up
    effect text CHECK (effect IN ('done', 'undone')),      -- of a hang without an answer; NULL: either
    created timestamptz NOT NULL DEFAULT now()
);

ALTER TABLE simulator.fault_rules DROP CONSTRAINT IF EXISTS fault_rules_step_check, ADD CONSTRAINT fault_rules_step_check
    CHECK (step IN ('volume', 'network', 'boot', 'stop', 'delete', 'migrate', 'scale', 'devices', 'resize', 'snapshot',
        'revert', 'delete_snapshot', 'template', 'health', 'any'));

CREATE TABLE IF NOT EXISTS simulator.latencies (
    step text PRIMARY KEY,
    distribution text NOT NULL CHECK (distribution IN ('fixed', 'uniform', 'exponential', 'normal')),
    mean_ms double precision NOT NULL CHECK (mean_ms >= 0),
    spread_ms double precision NOT NULL DEFAULT 0 CHECK (spread_ms >= 0)
);

ALTER TABLE simulator.latencies DROP CONSTRAINT IF EXISTS latencies_step_check, ADD CONSTRAINT latencies_step_check
    CHECK (step IN ('volume', 'network', 'boot', 'stop', 'delete', 'migrate', 'scale', 'devices', 'resize', 'snapshot',
        'revert', 'delete_snapshot', 'template', 'health'));

CREATE TABLE IF NOT EXISTS simulator.settings (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    latency_scale double precision NOT NULL DEFAULT 1 CHECK (latency_scale >= 0),
    code_digest text NOT NULL DEFAULT ''                   -- of the functions that are installed
);
INSERT INTO simulator.settings DEFAULT VALUES ON CONFLICT DO NOTHING;
