-- The calls of a driver but those in running.sql, one round trip and one transaction each.

CREATE FUNCTION simulator_code.ensure_running(
    p_host uuid, p_guest uuid, p_name text, p_cpu_number bigint, p_cpu_mhz bigint, p_memory_mib bigint,
    p_volumes uuid[], p_pools uuid[], p_sizes bigint[],
    p_fence bigint, p_timeout_ms double precision, p_draw double precision,
    -- workers of the releases before this one do not say
    p_nics uuid[] DEFAULT NULL, p_template uuid DEFAULT NULL, p_nic_details jsonb DEFAULT NULL,
    p_iso uuid DEFAULT NULL, p_made uuid[] DEFAULT '{}'
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_steps CONSTANT text[] := ARRAY['volume', 'network', 'boot'];
    v_fate simulator_code.outcome := simulator_code.open_call(p_host, p_guest, p_fence, 'boot');
    v_guest simulator.guests;
    v_ends_at text;
    v_volumes integer := cardinality(p_volumes);
    v_problem text;
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    SELECT * INTO v_guest FROM simulator.guests WHERE uuid = p_guest;
    IF v_guest.power = 'Running' THEN
        RETURN simulator_code.keep_running(
            v_guest, v_fate.host_name, p_cpu_number, p_cpu_mhz, p_memory_mib, p_fence, p_timeout_ms, p_draw
        );
    END IF;
    v_fate := simulator_code.fate(p_host, v_fate.host_name, v_steps, 'boot', false, p_timeout_ms, p_draw);
    IF v_fate.verdict <> 'done' THEN
        v_ends_at := v_fate.step;
    END IF;

    IF v_ends_at = 'volume' THEN -- all but the last are made
        v_volumes := v_volumes - 1;
    END IF;
    v_problem := simulator_code.make_volumes(
        p_guest, p_volumes[1:v_volumes], p_pools[1:v_volumes], p_sizes[1:v_volumes], p_made
    );
    IF v_problem IS NOT NULL THEN
        v_ends_at := 'volume';
    ELSIF v_ends_at IS NULL THEN
        v_problem := simulator_code.take_room(p_host, p_cpu_number * p_cpu_mhz, p_memory_mib);
        IF v_problem IS NOT NULL THEN
            v_ends_at := 'boot';
        END IF;
    END IF;
    IF v_problem IS NOT NULL AND v_fate.verdict = 'done' THEN
        v_fate := ('failed', v_ends_at, v_problem, v_ends_at = 'boot', v_fate.wait_ms, v_fate.host_name);
    END IF;

    IF v_ends_at = 'volume' THEN
        PERFORM simulator_code.remember_fence(p_guest, p_fence);
    ELSE -- a guest that did not boot is left there, half-made
        INSERT INTO simulator.guests AS g
            (uuid, fence, power, host_uuid, name, cpu_number, cpu_mhz, memory_mib, volume_uuids, nic_uuids,
            template_uuid, nics, iso_uuid)
        VALUES (p_guest, p_fence, CASE WHEN v_ends_at IS NULL THEN 'Running' ELSE 'Stopped' END,
            p_host, p_name, p_cpu_number, p_cpu_mhz, p_memory_mib, p_volumes, p_nics,
            p_template, p_nic_details, p_iso)
        ON CONFLICT (uuid) DO UPDATE SET fence = excluded.fence, power = excluded.power,
            host_uuid = excluded.host_uuid, name = excluded.name, cpu_number = excluded.cpu_number,
            cpu_mhz = excluded.cpu_mhz, memory_mib = excluded.memory_mib,
            volume_uuids = excluded.volume_uuids, nic_uuids = excluded.nic_uuids,
            template_uuid = excluded.template_uuid, nics = excluded.nics, iso_uuid = excluded.iso_uuid,
            changed = now();
    END IF;
    RETURN simulator_code.answer(
        v_fate, v_steps[1:array_position(v_steps, coalesce(v_ends_at, 'boot'))], 'boot', p_timeout_ms, p_draw
    );
END $$;

-- ensure_running for a guest that runs on the host already: nothing to do, unless it differs.
CREATE FUNCTION simulator_code.keep_running(
    p_guest simulator.guests, p_host_name text, p_cpu_number bigint, p_cpu_mhz bigint, p_memory_mib bigint,
    p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome;
BEGIN
    IF p_guest.fence < p_fence THEN
        PERFORM simulator_code.remember_fence(p_guest.uuid, p_fence);
    END IF;
    v_fate := simulator_code.fate(p_guest.host_uuid, p_host_name, '{}', 'boot', false, p_timeout_ms, p_draw);
    IF v_fate.verdict = 'done'
        AND (p_guest.cpu_number, p_guest.cpu_mhz, p_guest.memory_mib) <> (p_cpu_number, p_cpu_mhz, p_memory_mib)
    THEN
        v_fate := ('failed', 'boot', format('guest %s already runs with %s x %s MHz and %s MiB', p_guest.uuid,
            p_guest.cpu_number, p_guest.cpu_mhz, p_guest.memory_mib), false, v_fate.wait_ms, p_host_name);
    END IF;
    RETURN simulator_code.answer(v_fate, '{}', 'boot', p_timeout_ms, p_draw);
END $$;

CREATE FUNCTION simulator_code.ensure_stopped(
    p_host uuid, p_guest uuid, p_forced boolean,
    p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_call(p_host, p_guest, p_fence, 'stop');
    v_guest simulator.guests;
    v_steps text[] := '{}';
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    SELECT * INTO v_guest FROM simulator.guests WHERE uuid = p_guest;
    IF v_guest.power <> 'Absent' THEN
        v_steps := '{stop}';
    END IF;
    v_fate := simulator_code.fate(p_host, v_fate.host_name, v_steps, 'stop', p_forced, p_timeout_ms, p_draw);
    IF v_guest.power <> 'Absent' AND (v_fate.verdict = 'done' OR v_fate.step IS NULL) THEN
        PERFORM simulator_code.take_off(v_guest, p_fence);
    ELSE
        PERFORM simulator_code.remember_fence(p_guest, p_fence);
    END IF;
    PERFORM simulator_code.end_stray(p_host, p_guest) WHERE v_fate.verdict = 'done';
    IF p_forced THEN -- pulling the plug takes no time
        v_steps := '{}';
    END IF;
    RETURN simulator_code.answer(v_fate, v_steps, 'stop', p_timeout_ms, p_draw);
END $$;

-- A guest that belongs to another host leaves this one, its power cut.
CREATE FUNCTION simulator_code.ensure_copy_gone(
    p_host uuid, p_guest uuid, p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_call(p_host, p_guest, p_fence, 'copy');
    v_guest simulator.guests;
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    PERFORM simulator_code.remember_fence(p_guest, p_fence);
    SELECT * INTO v_guest FROM simulator.guests WHERE uuid = p_guest;
    v_fate := simulator_code.fate(p_host, v_fate.host_name, '{stop}', 'stop', true, p_timeout_ms, p_draw);
    IF v_fate.verdict = 'done' OR v_fate.step IS NULL THEN
        IF v_guest.host_uuid = p_host THEN
            PERFORM simulator_code.take_off(v_guest, p_fence);
        END IF;
        PERFORM simulator_code.end_stray(p_host, p_guest);
    END IF;
    RETURN simulator_code.answer(v_fate, '{}', 'stop', p_timeout_ms, p_draw);
END $$;

-- The guest's power stands where other calls have their reason. The fence is remembered, so what is seen
-- stays true against callers that are late.
CREATE FUNCTION simulator_code.look_at(
    p_host uuid, p_guest uuid, p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_call(p_host, p_guest, p_fence, 'look');
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    PERFORM simulator_code.remember_fence(p_guest, p_fence);
    v_fate := simulator_code.fate(p_host, v_fate.host_name, '{}', 'look', false, p_timeout_ms, p_draw);
    IF v_fate.verdict = 'done' THEN
        SELECT power INTO v_fate.reason FROM simulator.guests WHERE uuid = p_guest;
    END IF;
    RETURN simulator_code.answer(v_fate, '{}', 'look', p_timeout_ms, p_draw);
END $$;

CREATE FUNCTION simulator_code.ensure_absent(
    p_host uuid, p_guest uuid, p_volumes uuid[],
    p_fence bigint, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := simulator_code.open_call(p_host, p_guest, p_fence, 'delete');
    v_guest simulator.guests;
    v_steps text[] := '{}';
    v_happens boolean;
    v_problem text;
BEGIN
    IF v_fate.verdict <> 'done' THEN
        RETURN v_fate;
    END IF;
    SELECT * INTO v_guest FROM simulator.guests WHERE uuid = p_guest;
    IF v_guest.power <> 'Absent' OR EXISTS (SELECT FROM simulator.volumes WHERE uuid = ANY (p_volumes)) THEN
        v_steps := '{delete}';
    END IF;
    v_fate := simulator_code.fate(
        coalesce(p_host, v_guest.host_uuid), v_fate.host_name, v_steps, 'delete', false, p_timeout_ms, p_draw
    );
    v_happens := v_fate.verdict = 'done' OR v_fate.step IS NULL;
    PERFORM FROM simulator.volumes WHERE uuid = ANY (p_volumes) ORDER BY uuid FOR UPDATE;
    SELECT format('volume %s is in use by guest %s', v.uuid, v.guest_uuid) INTO v_problem
    FROM simulator.volumes v WHERE v.uuid = ANY (p_volumes) AND simulator_code.is_taken(v, p_guest)
    ORDER BY v.uuid LIMIT 1;
    IF v_problem IS NOT NULL THEN
        v_happens := false;
        IF v_fate.verdict = 'done' THEN
            v_fate := ('failed', 'delete', v_problem, false, v_fate.wait_ms, v_fate.host_name);
        END IF;
    END IF;
    -- A delete that fails by a fault rule has removed the guest and leaves the volumes.
    IF v_guest.power <> 'Absent' AND (v_happens OR v_problem IS NULL AND v_fate.verdict = 'failed') THEN
        PERFORM simulator_code.take_off(v_guest, p_fence);
    ELSE
        PERFORM simulator_code.remember_fence(p_guest, p_fence);
    END IF;
    IF v_happens THEN
        PERFORM simulator_code.end_stray(p_host, p_guest);
        DELETE FROM simulator.volumes WHERE uuid = ANY (p_volumes);
        IF p_volumes <> '{}' THEN -- snapshots go with the volumes
            DELETE FROM simulator.snapshots WHERE guest_uuid = p_guest;
        END IF;
    END IF;
    RETURN simulator_code.answer(v_fate, v_steps, 'delete', p_timeout_ms, p_draw);
END $$;

-- No fence: a volume that no guest has is never made anew. A guest that uses it keeps it.
CREATE FUNCTION simulator_code.ensure_volume_absent(
    p_pool uuid, p_volume uuid, p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_steps text[] := '{}';
    v_fate simulator_code.outcome;
    v_is_there boolean;
    v_user uuid;
BEGIN
    IF EXISTS (SELECT FROM simulator.volumes WHERE uuid = p_volume AND pool_uuid = p_pool) THEN
        v_steps := '{delete}';
    END IF;
    v_fate := simulator_code.fate(NULL, NULL, v_steps, 'delete', false, p_timeout_ms, p_draw);
    -- A start of a guest with the volume locks it, too, and is seen in what follows. One that is made
    -- from here on was absent when this call was done.
    PERFORM FROM simulator.volumes WHERE uuid = p_volume AND pool_uuid = p_pool FOR UPDATE;
    v_is_there := FOUND;
    SELECT g.uuid INTO v_user FROM simulator.volumes v JOIN simulator.guests g ON g.uuid = v.guest_uuid
    WHERE v_is_there AND v.uuid = p_volume AND v.uuid = ANY (g.volume_uuids);
    IF v_user IS NOT NULL AND v_fate.verdict = 'done' THEN
        v_fate := ('failed', 'delete', format('volume %s is in use by guest %s', p_volume, v_user), true,
            v_fate.wait_ms, NULL);
    ELSIF v_is_there AND v_user IS NULL AND (v_fate.verdict = 'done' OR v_fate.step IS NULL) THEN
        DELETE FROM simulator.volumes WHERE uuid = p_volume;
    END IF;
    RETURN simulator_code.answer(v_fate, v_steps, 'delete', p_timeout_ms, p_draw);
END $$;
