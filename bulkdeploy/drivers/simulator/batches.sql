-- Many calls in one transaction. Each ends as it would by itself; the caller waits for each as long as it takes.
--
-- Locks in an order that two batches share: limited fault rules first, then one call after the other by host. A guest
-- that another transaction works on is not waited for: its call is 'busy', and is to be made by itself.

CREATE FUNCTION simulator_code.make_calls(p_calls jsonb, p_timeout_ms double precision)
RETURNS TABLE (number integer, outcome simulator_code.outcome)
LANGUAGE plpgsql AS $$
DECLARE
    v_call record;
BEGIN
    IF jsonb_array_length(p_calls) > 1 THEN
        PERFORM FROM simulator.fault_rules WHERE remaining > 0 ORDER BY id FOR UPDATE;
    END IF;
    FOR v_call IN
        SELECT c.* FROM jsonb_to_recordset(p_calls) AS c (
            number integer, kind text, host uuid, guest uuid, fence bigint, draw double precision, forced boolean,
            name text, cpu_number bigint, cpu_mhz bigint, memory_mib bigint,
            volumes uuid[], pools uuid[], sizes bigint[], nics uuid[],
            template uuid, nic_details jsonb, iso uuid, made uuid[]
        ) LEFT JOIN simulator.guests g ON c.host IS NULL AND g.uuid = c.guest
        ORDER BY coalesce(c.host, g.host_uuid), c.number
    LOOP
        number := v_call.number;
        IF jsonb_array_length(p_calls) > 1
            AND NOT pg_try_advisory_xact_lock(uuid_hash_extended(v_call.guest, 0))
        THEN
            outcome := ('busy', NULL, NULL, NULL, 0, NULL);
        ELSIF v_call.kind = 'start' THEN
            outcome := simulator_code.ensure_running(v_call.host, v_call.guest, v_call.name,
                v_call.cpu_number, v_call.cpu_mhz, v_call.memory_mib, v_call.volumes, v_call.pools, v_call.sizes,
                v_call.fence, p_timeout_ms, v_call.draw, v_call.nics,
                v_call.template, v_call.nic_details, v_call.iso, coalesce(v_call.made, '{}'));
        ELSIF v_call.kind = 'stop' THEN
            outcome := simulator_code.ensure_stopped(
                v_call.host, v_call.guest, v_call.forced, v_call.fence, p_timeout_ms, v_call.draw);
        ELSE
            outcome := simulator_code.ensure_absent(
                v_call.host, v_call.guest, v_call.volumes, v_call.fence, p_timeout_ms, v_call.draw);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
