-- What calls are made of: locks, volumes, room on a host, and the memory of fences.
--
-- Calls for one guest queue up at an advisory lock on its uuid. The table lock is the one that the
-- write needs anyway, taken first, so that adopting many guests at once (which takes a stronger
-- one) never falls between a call's look and its write. Locks are taken in the order guest, fault
-- rule, volumes, host; a call touches one host, a migration two, by uuid.

CREATE FUNCTION simulator_code.lock_guest(p_guest uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE simulator.guests IN ROW EXCLUSIVE MODE;
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_guest, 0));
END $$;

-- Remembers the highest fence that came with a call for the guest.
CREATE FUNCTION simulator_code.remember_fence(p_guest uuid, p_fence bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO simulator.guests AS g (uuid, fence, power) VALUES (p_guest, p_fence, 'Absent')
    ON CONFLICT (uuid) DO UPDATE SET fence = excluded.fence, changed = now()
    WHERE g.fence < excluded.fence;
END $$;

CREATE FUNCTION simulator_code.refusal(p_step text, p_reason text, p_transient boolean, p_host_name text)
RETURNS simulator_code.outcome
LANGUAGE sql IMMUTABLE
RETURN ROW('failed', p_step, p_reason, p_transient, 0::double precision, p_host_name)::simulator_code.outcome;

-- Opens a call: waits for earlier calls for the guest, and refuses a host that is not known, a
-- fence that is overtaken and, but for copies, a guest that is on another host. p_host NULL: wherever it is.
-- Verdict 'done': go on; host_name is the host that the call concerns, if any.
CREATE FUNCTION simulator_code.open_call(p_host uuid, p_guest uuid, p_fence bigint, p_step text)
RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_answer simulator_code.outcome;
    v_guest simulator.guests;
    v_host_name text;
BEGIN
    PERFORM simulator_code.lock_guest(p_guest);
    SELECT * INTO v_guest FROM simulator.guests WHERE uuid = p_guest;
    SELECT name INTO v_host_name FROM simulator.hosts WHERE uuid = coalesce(p_host, v_guest.host_uuid);
    IF p_host IS NOT NULL AND v_host_name IS NULL THEN
        RETURN simulator_code.refusal(p_step, format('no host with uuid %s is known here', p_host), true, NULL);
    END IF;
    IF EXISTS (SELECT FROM simulator.hosts WHERE uuid = p_host AND is_off) THEN
        RETURN simulator_code.refusal(p_step, 'the host is off', true, v_host_name);
    END IF;
    IF EXISTS (SELECT FROM simulator.hosts WHERE uuid = coalesce(p_host, v_guest.host_uuid) AND is_cut_off) THEN
        RETURN simulator_code.refusal(p_step, 'no route to the host', true, v_host_name);
    END IF;
    IF v_guest.fence > p_fence THEN
        v_answer := simulator_code.refusal(p_step, format('fence %s is overtaken: %s was seen for guest %s',
            p_fence, v_guest.fence, p_guest), false, v_host_name);
        v_answer.verdict := 'stale';
        RETURN v_answer;
    END IF;
    IF v_guest.host_uuid <> p_host AND simulator_code.leave_behind(v_guest, p_step) THEN
        v_guest.host_uuid := NULL;
    END IF;
    IF v_guest.host_uuid <> p_host AND p_step <> 'copy' THEN
        PERFORM simulator_code.remember_fence(p_guest, p_fence);
        RETURN simulator_code.refusal(p_step, format('guest %s is on host %s (%s)', p_guest,
            (SELECT name FROM simulator.hosts WHERE uuid = v_guest.host_uuid), v_guest.power), false, v_host_name);
    END IF;
    v_answer := ('done', NULL, NULL, NULL, 0, v_host_name);
    RETURN v_answer;
END $$;

-- A host that is cut off cannot report its guests: one that starts elsewhere then runs twice.
CREATE FUNCTION simulator_code.leave_behind(p_guest simulator.guests, p_step text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF p_step <> 'boot' OR NOT EXISTS (SELECT FROM simulator.hosts WHERE uuid = p_guest.host_uuid AND is_cut_off) THEN
        RETURN false;
    END IF;
    IF p_guest.power = 'Running' THEN
        INSERT INTO simulator.stray_guests VALUES (p_guest.uuid, p_guest.host_uuid) ON CONFLICT DO NOTHING;
    END IF;
    UPDATE simulator.guests SET power = 'Absent', host_uuid = NULL, volume_uuids = '{}', nic_uuids = NULL, changed = now()
    WHERE uuid = p_guest.uuid;
    RETURN true;
END $$;

-- True when a volume belongs to another guest that has it in use.
CREATE FUNCTION simulator_code.is_taken(p_volume simulator.volumes, p_guest uuid) RETURNS boolean
LANGUAGE sql STABLE
RETURN p_volume.guest_uuid <> p_guest AND EXISTS (
    SELECT FROM simulator.guests g
    WHERE g.uuid = p_volume.guest_uuid AND p_volume.uuid = ANY (g.volume_uuids)
);

-- Makes the volumes; NULL, or why not. A volume of this guest that is there already is taken as it
-- is, grown if need be. A volume of p_made that is not there is lost, and is not made.
CREATE FUNCTION simulator_code.make_volumes(
    p_guest uuid, p_volumes uuid[], p_pools uuid[], p_sizes bigint[], p_made uuid[]
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_rows integer;
    v_problem text;
BEGIN
    IF cardinality(p_made) > 0 THEN
        PERFORM FROM simulator.volumes WHERE uuid = ANY (p_made) ORDER BY uuid FOR UPDATE;
        SELECT format('volume %s is not there any more, and a start makes no new volume in its place. '
            'restoreVirtualMachine makes a root disk anew from its template; a data volume comes from a backup, or '
            'detachVolume takes it from the VM', made)
        INTO v_problem FROM unnest(p_made) AS made
        WHERE NOT EXISTS (SELECT FROM simulator.volumes v WHERE v.uuid = made)
        ORDER BY made LIMIT 1;
        IF v_problem IS NOT NULL THEN
            RETURN v_problem;
        END IF;
    END IF;
    LOOP -- until all are held: one that was there may be removed before its lock is taken
        INSERT INTO simulator.volumes (uuid, pool_uuid, size_bytes, guest_uuid)
        SELECT a.uuid, a.pool, a.size, p_guest FROM unnest(p_volumes, p_pools, p_sizes) AS a (uuid, pool, size)
        ORDER BY a.uuid
        ON CONFLICT (uuid) DO NOTHING;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        IF v_rows = cardinality(p_volumes) THEN
            RETURN NULL;
        END IF;
        PERFORM FROM simulator.volumes WHERE uuid = ANY (p_volumes) ORDER BY uuid FOR UPDATE;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        EXIT WHEN v_rows = cardinality(p_volumes);
    END LOOP;
    SELECT CASE
        WHEN v.pool_uuid <> a.pool THEN format('volume %s is in pool %s, not in %s', v.uuid, v.pool_uuid, a.pool)
        WHEN v.size_bytes > a.size THEN format('volume %s has %s bytes, shrinking it to %s would lose data',
            v.uuid, v.size_bytes, a.size)
        ELSE format('volume %s is in use by guest %s', v.uuid, v.guest_uuid)
    END INTO v_problem
    FROM unnest(p_volumes, p_pools, p_sizes) AS a (uuid, pool, size)
    JOIN simulator.volumes v ON v.uuid = a.uuid
    WHERE v.pool_uuid <> a.pool OR v.size_bytes > a.size OR simulator_code.is_taken(v, p_guest)
    ORDER BY v.uuid LIMIT 1;
    IF v_problem IS NULL THEN
        UPDATE simulator.volumes v SET guest_uuid = p_guest, size_bytes = a.size
        FROM unnest(p_volumes, p_sizes) AS a (uuid, size)
        WHERE v.uuid = a.uuid AND (v.guest_uuid, v.size_bytes) <> (p_guest, a.size);
    END IF;
    RETURN v_problem;
END $$;

-- NULL when there was room and it was taken; otherwise why not.
CREATE FUNCTION simulator_code.take_room(p_host uuid, p_cpu_mhz bigint, p_memory_mib bigint) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE simulator.hosts SET cpu_mhz_used = cpu_mhz_used + p_cpu_mhz,
        memory_mib_used = memory_mib_used + p_memory_mib, guests_used = guests_used + 1
    WHERE uuid = p_host AND cpu_mhz_used + p_cpu_mhz <= cpu_mhz_limit
        AND memory_mib_used + p_memory_mib <= memory_mib_limit AND guests_used < guests_limit;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT format('no room: needs %s MHz, %s MiB and a guest''s place; free are %s MHz, %s MiB and %s',
            p_cpu_mhz, p_memory_mib, greatest(0, cpu_mhz_limit - cpu_mhz_used),
            greatest(0, memory_mib_limit - memory_mib_used), greatest(0, guests_limit - guests_used))
        FROM simulator.hosts WHERE uuid = p_host
    );
END $$;

-- Takes the guest off its host, whose room it gives back.
CREATE FUNCTION simulator_code.take_off(p_guest simulator.guests, p_fence bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_guest.power = 'Running' THEN
        UPDATE simulator.hosts SET guests_used = guests_used - 1,
            cpu_mhz_used = cpu_mhz_used - p_guest.cpu_number::bigint * p_guest.cpu_mhz,
            memory_mib_used = memory_mib_used - p_guest.memory_mib
        WHERE uuid = p_guest.host_uuid;
    END IF;
    UPDATE simulator.guests SET fence = p_fence, power = 'Absent', host_uuid = NULL, volume_uuids = '{}',
        nic_uuids = NULL, changed = now()
    WHERE uuid = p_guest.uuid;
END $$;

-- Ends a guest on a host that was cut off while it was started elsewhere; p_host NULL: on every host.
CREATE FUNCTION simulator_code.end_stray(p_host uuid, p_guest uuid) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM simulator.stray_guests s USING simulator.hosts h
    WHERE s.guest_uuid = p_guest AND h.uuid = s.host_uuid AND h.uuid = coalesce(p_host, h.uuid) AND NOT h.is_cut_off;
END;
