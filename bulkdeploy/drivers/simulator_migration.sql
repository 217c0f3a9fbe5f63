-- The call that moves a running guest to another host, in one transaction: it is never on both or on none.

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
    SELECT name INTO v_host_name FROM simulator.hosts WHERE uuid = p_host;
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
