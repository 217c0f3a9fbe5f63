-- A guest's claim (docs/adr/0024). A host that was declared off cannot be claimed until reconnectHost takes it back:
-- the row then names no host, which the caller recognises. Everything else is as in 0033_pre_guest_hardware.sql.

CREATE OR REPLACE FUNCTION claim_guest(
    guest uuid, host uuid, volumes uuid[], its_fence bigint, lock_space int, lock_keys int[]
)
RETURNS TABLE (host_uuid uuid, destination_uuid uuid, details jsonb, taken uuid[]) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock(lock_space, key) FROM unnest(lock_keys) AS key;

    INSERT INTO guest_fences (guest_uuid, fence) VALUES (guest, its_fence)
    ON CONFLICT (guest_uuid) DO UPDATE SET fence = excluded.fence, updated = now()
    WHERE guest_fences.fence <= excluded.fence;
    IF NOT FOUND THEN  -- a higher fence was seen
        RETURN;
    END IF;

    SELECT coalesce(array_agg(v.uuid), '{}') INTO taken
    FROM guest_fences f, unnest(f.volume_uuids) v (uuid)
    WHERE f.host_uuid IS NOT NULL AND f.guest_uuid <> guest AND f.volume_uuids && volumes AND v.uuid = ANY (volumes);

    IF taken = '{}' THEN
        UPDATE guest_fences SET host_uuid = host, volume_uuids = volumes
        WHERE guest_uuid = guest
            AND coalesce(host_uuid, host) = host AND coalesce(destination_uuid, host) = host
            AND NOT EXISTS (SELECT FROM hosts h WHERE h.uuid = host AND h.fenced IS NOT NULL);
    END IF;

    RETURN QUERY SELECT g.host_uuid, g.destination_uuid, g.details, taken FROM guest_fences g WHERE g.guest_uuid = guest;
END $$;
