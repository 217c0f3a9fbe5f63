-- The calls that change a running guest: its host, its sizes, its devices or their sizes, in one transaction each. It is
-- never on two hosts or on none.

CREATE FUNCTION simulator_code.ensure_migrated(
    p_source uuid, p_host uuid, p_guest uuid,
    p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_call(NULL, p_guest, p_fence, 'migrate');
    v_guest simulator.guests;
    v_host_name text;
    v_steps text[] := '{}';
    v_problem text;
BEGIN
    SELECT name INTO v_host_name FROM simulator.hosts WHERE uuid = p_host AND NOT is_off AND NOT is_cut_off;
    v_fate.host_name := v_host_name;
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    PERFORM simulator_code.remember_fence(p_guest, p_fence);
    SELECT * INTO v_guest FROM simulator.guests WHERE uuid = p_guest;
    IF v_host_name IS NULL THEN
        RETURN simulator_code.refusal('migrate', format('no host with uuid %s is known here', p_host), true, NULL);
    ELSIF v_guest.power <> 'Running' OR v_guest.host_uuid NOT IN (p_source, p_host) THEN
        RETURN simulator_code.refusal('migrate', format('guest %s does not run on the host to move it from: it is %s%s',
            p_guest, v_guest.power, coalesce(' on host ' || v_guest.host_uuid::text, '')), false, v_host_name);
    ELSIF v_guest.host_uuid <> p_host THEN
        v_steps := '{migrate}';
    END IF;
    v_fate := simulator_code.fate(p_host, v_host_name, v_steps, 'migrate', false, p_timeout_ms, p_draw);
    IF v_guest.host_uuid <> p_host AND (v_fate.verdict = 'done' OR v_fate.step IS NULL) THEN
        v_problem := simulator_code.change_host(v_guest, p_host);
        IF v_problem IS NOT NULL AND v_fate.verdict = 'done' THEN
            v_fate := ('failed', 'migrate', v_problem, true, v_fate.wait_ms, v_host_name);
        END IF;
    END IF;
    RETURN simulator_code.answer(v_fate, v_steps, 'migrate', p_timeout_ms, p_draw);
END $$;

-- Moves a running guest and the room it takes; NULL, or why the host has none.
CREATE FUNCTION simulator_code.change_host(p_guest simulator.guests, p_host uuid) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_cpu_mhz CONSTANT bigint := p_guest.cpu_number::bigint * p_guest.cpu_mhz;
    v_problem text;
BEGIN
    PERFORM FROM simulator.hosts WHERE uuid IN (p_guest.host_uuid, p_host) ORDER BY uuid FOR UPDATE;
    v_problem := simulator_code.take_room(p_host, v_cpu_mhz, p_guest.memory_mib);
    IF v_problem IS NULL THEN
        UPDATE simulator.hosts SET guests_used = guests_used - 1, cpu_mhz_used = cpu_mhz_used - v_cpu_mhz,
            memory_mib_used = memory_mib_used - p_guest.memory_mib
        WHERE uuid = p_guest.host_uuid;
        UPDATE simulator.guests SET host_uuid = p_host, changed = now() WHERE uuid = p_guest.uuid;
    END IF;
    RETURN v_problem;
END $$;

-- Opens a call that changes a guest where it runs: as open_call, and refuses one that does not run. p_host NULL: one
-- that must not run.
CREATE FUNCTION simulator_code.open_change(p_host uuid, p_guest uuid, p_fence bigint, p_step text)
RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_call(p_host, p_guest, p_fence, p_step);
    v_power text;
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    PERFORM simulator_code.remember_fence(p_guest, p_fence);
    SELECT power INTO v_power FROM simulator.guests WHERE uuid = p_guest;
    IF p_host IS NULL AND v_power = 'Running' THEN
        RETURN simulator_code.refusal(p_step, format('guest %s runs', p_guest), false, v_fate.host_name);
    END IF;
    IF p_host IS NOT NULL AND v_power <> 'Running' THEN
        RETURN simulator_code.refusal(
            p_step, format('guest %s does not run: it is %s', p_guest, v_power), false, v_fate.host_name
        );
    END IF;
    RETURN v_fate;
END $$;

CREATE FUNCTION simulator_code.ensure_scaled(
    p_host uuid, p_guest uuid, p_cpu_number bigint, p_cpu_mhz bigint, p_memory_mib bigint,
    p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_change(p_host, p_guest, p_fence, 'scale');
    v_guest simulator.guests;
    v_steps text[] := '{}';
    v_problem text;
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    SELECT * INTO v_guest FROM simulator.guests WHERE uuid = p_guest;
    IF (v_guest.cpu_number, v_guest.cpu_mhz, v_guest.memory_mib) <> (p_cpu_number, p_cpu_mhz, p_memory_mib) THEN
        v_steps := '{scale}';
    END IF;
    v_fate := simulator_code.fate(p_host, v_fate.host_name, v_steps, 'scale', false, p_timeout_ms, p_draw);
    IF v_steps <> '{}' AND (v_fate.verdict = 'done' OR v_fate.step IS NULL) THEN
        v_problem := simulator_code.change_sizes(v_guest, p_cpu_number, p_cpu_mhz, p_memory_mib);
        IF v_problem IS NOT NULL AND v_fate.verdict = 'done' THEN
            v_fate := ('failed', 'scale', v_problem, true, v_fate.wait_ms, v_fate.host_name);
        END IF;
    END IF;
    RETURN simulator_code.answer(v_fate, v_steps, 'scale', p_timeout_ms, p_draw);
END $$;

-- Changes the sizes of a running guest and the room it takes; NULL, or why its host has none.
CREATE FUNCTION simulator_code.change_sizes(
    p_guest simulator.guests, p_cpu_number bigint, p_cpu_mhz bigint, p_memory_mib bigint
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_cpu_mhz CONSTANT bigint := p_cpu_number * p_cpu_mhz - p_guest.cpu_number::bigint * p_guest.cpu_mhz;
    v_memory_mib CONSTANT bigint := p_memory_mib - p_guest.memory_mib;
BEGIN
    UPDATE simulator.hosts SET cpu_mhz_used = cpu_mhz_used + v_cpu_mhz,
        memory_mib_used = memory_mib_used + v_memory_mib
    WHERE uuid = p_guest.host_uuid AND (v_cpu_mhz <= 0 OR cpu_mhz_used + v_cpu_mhz <= cpu_mhz_limit)
        AND (v_memory_mib <= 0 OR memory_mib_used + v_memory_mib <= memory_mib_limit);
    IF NOT FOUND THEN
        RETURN format('no room: needs %s MHz and %s MiB more', v_cpu_mhz, v_memory_mib);
    END IF;
    UPDATE simulator.guests SET cpu_number = p_cpu_number, cpu_mhz = p_cpu_mhz, memory_mib = p_memory_mib,
        changed = now()
    WHERE uuid = p_guest.uuid;
    RETURN NULL;
END $$;

-- The volumes are made first, also by a call that fails: what it does not do is to plug them.
CREATE FUNCTION simulator_code.ensure_devices(
    p_host uuid, p_guest uuid, p_volumes uuid[], p_pools uuid[], p_sizes bigint[], p_nics uuid[],
    p_fence bigint, p_timeout_ms double precision, p_draw double precision, p_nic_details jsonb DEFAULT NULL,
    p_made uuid[] DEFAULT '{}'
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_change(p_host, p_guest, p_fence, 'devices');
    v_guest simulator.guests;
    v_steps text[] := '{}';
    v_problem text;
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    SELECT * INTO v_guest FROM simulator.guests WHERE uuid = p_guest;
    IF (simulator_code.are_same(v_guest.volume_uuids, p_volumes)
        AND simulator_code.are_same(v_guest.nic_uuids, p_nics)) IS NOT TRUE
    THEN
        v_steps := '{devices}';
    END IF;
    v_fate := simulator_code.fate(p_host, v_fate.host_name, v_steps, 'devices', false, p_timeout_ms, p_draw);
    IF v_steps <> '{}' THEN
        v_problem := simulator_code.make_volumes(p_guest, p_volumes, p_pools, p_sizes, p_made);
        IF v_problem IS NULL AND (v_fate.verdict = 'done' OR v_fate.step IS NULL) THEN
            UPDATE simulator.guests SET volume_uuids = p_volumes, nic_uuids = p_nics, nics = p_nic_details,
                changed = now()
            WHERE uuid = p_guest;
        ELSIF v_problem IS NOT NULL AND v_fate.verdict = 'done' THEN
            v_fate := ('failed', 'devices', v_problem, false, v_fate.wait_ms, v_fate.host_name);
        END IF;
    END IF;
    RETURN simulator_code.answer(v_fate, v_steps, 'devices', p_timeout_ms, p_draw);
END $$;

CREATE FUNCTION simulator_code.ensure_drive(
    p_host uuid, p_guest uuid, p_iso uuid, p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_change(p_host, p_guest, p_fence, 'devices');
    v_steps text[] := '{}';
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    IF EXISTS (SELECT FROM simulator.guests WHERE uuid = p_guest AND iso_uuid IS DISTINCT FROM p_iso) THEN
        v_steps := '{devices}';
    END IF;
    v_fate := simulator_code.fate(p_host, v_fate.host_name, v_steps, 'devices', false, p_timeout_ms, p_draw);
    IF v_steps <> '{}' AND (v_fate.verdict = 'done' OR v_fate.step IS NULL) THEN
        UPDATE simulator.guests SET iso_uuid = p_iso, changed = now() WHERE uuid = p_guest;
    END IF;
    RETURN simulator_code.answer(v_fate, v_steps, 'devices', p_timeout_ms, p_draw);
END $$;

-- Whether two lists have the same members; NULL where one is not known.
CREATE FUNCTION simulator_code.are_same(p_some uuid[], p_others uuid[]) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN p_some @> p_others AND p_some <@ p_others;

-- p_host NULL: the guest must not run. Only then does a volume shrink.
CREATE FUNCTION simulator_code.ensure_resized(
    p_host uuid, p_guest uuid, p_volume uuid, p_size bigint,
    p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_change(p_host, p_guest, p_fence, 'resize');
    v_volume simulator.volumes;
    v_steps text[] := '{}';
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    IF EXISTS (SELECT FROM simulator.volumes WHERE uuid = p_volume AND size_bytes <> p_size) THEN
        v_steps := '{resize}';
    END IF;
    v_fate := simulator_code.fate(p_host, v_fate.host_name, v_steps, 'resize', false, p_timeout_ms, p_draw);
    SELECT * INTO v_volume FROM simulator.volumes WHERE uuid = p_volume FOR UPDATE;
    IF simulator_code.is_taken(v_volume, p_guest) OR p_host IS NOT NULL AND v_volume.size_bytes > p_size THEN
        IF v_fate.verdict = 'done' THEN
            v_fate := ('failed', 'resize', format('volume %s of %s bytes is in use by guest %s', p_volume,
                v_volume.size_bytes, v_volume.guest_uuid), false, v_fate.wait_ms, v_fate.host_name);
        END IF;
    ELSIF v_steps <> '{}' AND (v_fate.verdict = 'done' OR v_fate.step IS NULL) THEN
        UPDATE simulator.volumes SET size_bytes = p_size WHERE uuid = p_volume;
    END IF;
    RETURN simulator_code.answer(v_fate, v_steps, 'resize', p_timeout_ms, p_draw);
END $$;

-- The volume's size stands where other calls have their reason. The fence is remembered, as look_at does it.
CREATE FUNCTION simulator_code.size_of(
    p_guest uuid, p_volume uuid, p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_call(NULL, p_guest, p_fence, 'look');
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    PERFORM simulator_code.remember_fence(p_guest, p_fence);
    v_fate := simulator_code.fate(NULL, NULL, '{}', 'look', false, p_timeout_ms, p_draw);
    IF v_fate.verdict = 'done' THEN
        SELECT size_bytes INTO v_fate.reason FROM simulator.volumes WHERE uuid = p_volume;
    END IF;
    RETURN simulator_code.answer(v_fate, '{}', 'look', p_timeout_ms, p_draw);
END $$;

-- A guest's volumes as they are at this moment; of one whose snapshot is there already nothing is changed.
CREATE FUNCTION simulator_code.ensure_snapshot(
    p_host uuid, p_guest uuid, p_volumes uuid[], p_snapshot uuid,
    p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_change(p_host, p_guest, p_fence, 'snapshot');
    v_steps text[] := '{}';
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    IF NOT EXISTS (SELECT FROM simulator.snapshots WHERE uuid = p_snapshot) THEN
        v_steps := '{snapshot}';
    END IF;
    v_fate := simulator_code.fate(p_host, v_fate.host_name, v_steps, 'snapshot', false, p_timeout_ms, p_draw);
    IF v_steps <> '{}' AND (v_fate.verdict = 'done' OR v_fate.step IS NULL) THEN
        INSERT INTO simulator.snapshots (uuid, guest_uuid, contents)
        SELECT p_snapshot, p_guest, coalesce(jsonb_object_agg(v.uuid, v.content), '{}')
        FROM simulator.volumes v WHERE v.uuid = ANY (p_volumes);
    END IF;
    RETURN simulator_code.answer(v_fate, v_steps, 'snapshot', p_timeout_ms, p_draw);
END $$;

CREATE FUNCTION simulator_code.ensure_reverted(
    p_host uuid, p_guest uuid, p_snapshot uuid,
    p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_change(p_host, p_guest, p_fence, 'revert');
    v_snapshot simulator.snapshots;
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    SELECT * INTO v_snapshot FROM simulator.snapshots WHERE uuid = p_snapshot AND guest_uuid = p_guest;
    IF v_snapshot.uuid IS NULL THEN
        RETURN simulator_code.refusal(
            'revert', format('guest %s has no snapshot %s', p_guest, p_snapshot), false, v_fate.host_name
        );
    END IF;
    v_fate := simulator_code.fate(p_host, v_fate.host_name, '{revert}', 'revert', false, p_timeout_ms, p_draw);
    IF v_fate.verdict = 'done' OR v_fate.step IS NULL THEN
        UPDATE simulator.volumes v SET content = c.value FROM jsonb_each_text(v_snapshot.contents) c
        WHERE v.uuid = c.key::uuid;
    END IF;
    RETURN simulator_code.answer(v_fate, '{revert}', 'revert', p_timeout_ms, p_draw);
END $$;

CREATE FUNCTION simulator_code.ensure_snapshot_absent(
    p_host uuid, p_guest uuid, p_snapshot uuid,
    p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_change(p_host, p_guest, p_fence, 'delete_snapshot');
    v_steps text[] := '{}';
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    IF EXISTS (SELECT FROM simulator.snapshots WHERE uuid = p_snapshot AND guest_uuid = p_guest) THEN
        v_steps := '{delete_snapshot}';
    END IF;
    v_fate := simulator_code.fate(p_host, v_fate.host_name, v_steps, 'delete_snapshot', false, p_timeout_ms, p_draw);
    IF v_fate.verdict = 'done' OR v_fate.step IS NULL THEN
        DELETE FROM simulator.snapshots WHERE uuid = p_snapshot AND guest_uuid = p_guest;
    END IF;
    RETURN simulator_code.answer(v_fate, v_steps, 'delete_snapshot', p_timeout_ms, p_draw);
END $$;

-- A volume of a guest that is on no host becomes a template; one that is there already stays as it is.
CREATE FUNCTION simulator_code.ensure_template_made(
    p_guest uuid, p_volume uuid, p_template uuid,
    p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_change(NULL, p_guest, p_fence, 'template');
    v_steps text[] := '{}';
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    IF NOT EXISTS (SELECT FROM simulator.volumes WHERE uuid = p_volume AND guest_uuid = p_guest) THEN
        RETURN simulator_code.refusal(
            'template', format('guest %s has no volume %s', p_guest, p_volume), false, v_fate.host_name
        );
    END IF;
    IF NOT EXISTS (SELECT FROM simulator.templates WHERE uuid = p_template) THEN
        v_steps := '{template}';
    END IF;
    v_fate := simulator_code.fate(NULL, v_fate.host_name, v_steps, 'template', false, p_timeout_ms, p_draw);
    IF v_steps <> '{}' AND (v_fate.verdict = 'done' OR v_fate.step IS NULL) THEN
        INSERT INTO simulator.templates (uuid, content)
        SELECT p_template, content FROM simulator.volumes WHERE uuid = p_volume;
    END IF;
    RETURN simulator_code.answer(v_fate, v_steps, 'template', p_timeout_ms, p_draw);
END $$;

-- Cuts a host's power: what ran there does not run any more, and nothing starts until it is admitted anew. Waits for all
-- calls that are under way, for they have looked at the host and not yet written.
CREATE FUNCTION simulator_code.ensure_fenced(p_host uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE simulator.guests IN SHARE ROW EXCLUSIVE MODE;
    UPDATE simulator.guests SET power = 'Absent', host_uuid = NULL, volume_uuids = '{}', nic_uuids = NULL, changed = now()
    WHERE host_uuid = p_host;
    DELETE FROM simulator.stray_guests WHERE host_uuid = p_host;
    UPDATE simulator.hosts SET is_off = true, cpu_mhz_used = 0, memory_mib_used = 0, guests_used = 0 WHERE uuid = p_host;
END $$;

-- Those of these guests that run on their host and answer a health check. A check fails as a call does whose only step
-- is 'health', by a draw of its own.
CREATE FUNCTION simulator_code.answering_guests(
    p_guests uuid[], p_hosts uuid[], p_timeout_ms double precision, p_draw double precision
) RETURNS SETOF uuid
LANGUAGE sql AS $$
    SELECT g.uuid
    FROM unnest(p_guests, p_hosts) AS wanted (guest, host)
    JOIN simulator.guests g ON g.uuid = wanted.guest AND g.host_uuid = wanted.host AND g.power = 'Running'
    JOIN simulator.hosts h ON h.uuid = g.host_uuid AND NOT h.is_off AND NOT h.is_cut_off,
    LATERAL simulator_code.chance(p_draw, hashtextextended(g.uuid::text, 0)) AS draw,
    LATERAL simulator_code.fate(h.uuid, h.name, '{health}', 'health', false, p_timeout_ms, draw) AS fate,
    LATERAL simulator_code.answer(fate, '{health}', 'health', p_timeout_ms, draw) AS answered
    WHERE (answered).verdict = 'done'
$$;
