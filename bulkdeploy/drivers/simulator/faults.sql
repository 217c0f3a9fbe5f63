-- What goes wrong with a call, and how it ends for the caller.

-- How a call ends. verdict: 'done'; 'failed' (step and reason say why); 'silent' (it hangs: the caller
-- hears nothing before its timeout); 'stale' (a higher fence was seen). The caller waits wait_ms first.
CREATE TYPE simulator_code.outcome AS (
    verdict text, step text, reason text, transient boolean, wait_ms double precision, host_name text
);

-- What happens to a call that goes through p_steps (none: everything is as asked already, and only
-- the host may still be silent or refuse). The first rule that fires, in the order of the steps, wins; a rule for
-- 'any' step strikes once in a call, at a step of chance, so that its rate is the rate of failing calls.
-- A forced stop pulls the plug: it does not wait for a guest that hangs in 'stop'.
-- Result: verdict 'done' = goes on to the end, after wait_ms more; otherwise the effect of the
-- call ends before `step`, or, where that is NULL, takes effect but is never answered.
CREATE FUNCTION simulator_code.fate(
    p_host_uuid uuid, p_host_name text, p_steps text[], p_idle_step text, p_forced boolean,
    p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql AS $$
DECLARE
    v_fate simulator_code.outcome := ('done', NULL, NULL, NULL, 0, p_host_name);
    v_rule record;
BEGIN
    FOR v_rule IN
        SELECT r.*, c.at_step FROM simulator.fault_rules r, LATERAL (
            SELECT CASE WHEN r.step <> 'any' THEN r.step ELSE coalesce(
                p_steps[1 + floor(simulator_code.chance(p_draw, 4 * r.id) * cardinality(p_steps))::integer], p_idle_step
            ) END AS at_step
        ) c
        WHERE (r.host IS NULL OR r.host = p_host_name OR r.host = p_host_uuid::text)
            AND (r.step = 'any' OR r.step = ANY (p_steps))
            AND NOT (p_forced AND r.kind = 'hang' AND r.step = 'stop')
            AND simulator_code.chance(p_draw, 4 * r.id + 1) < r.rate
        ORDER BY array_position(p_steps, c.at_step), r.id
    LOOP
        IF v_rule.remaining IS NOT NULL THEN
            UPDATE simulator.fault_rules SET remaining = remaining - 1 WHERE id = v_rule.id AND remaining > 0;
            CONTINUE WHEN NOT FOUND;
        END IF;
        v_fate.step := v_rule.at_step;
        v_fate.reason := v_rule.reason;
        v_fate.transient := v_rule.kind <> 'permanent';
        IF v_rule.kind <> 'hang' THEN
            v_fate.verdict := 'failed';
        ELSIF v_rule.hang_ms < p_timeout_ms THEN
            v_fate.wait_ms := v_rule.hang_ms;
        ELSE
            v_fate.verdict := 'silent';
            v_fate.wait_ms := p_timeout_ms;
            IF coalesce(v_rule.effect = 'done', simulator_code.chance(p_draw, 4 * v_rule.id + 2) < 0.5) THEN
                v_fate.step := NULL;
            END IF;
        END IF;
        RETURN v_fate;
    END LOOP;
    RETURN v_fate;
END $$;

-- The end of a call that got as far as p_steps: their latency is added, and a caller whose patience
-- is shorter hears nothing, whatever happened.
CREATE FUNCTION simulator_code.answer(
    p_fate simulator_code.outcome, p_steps text[], p_last_step text,
    p_timeout_ms double precision, p_draw double precision
) RETURNS simulator_code.outcome
LANGUAGE plpgsql STABLE AS $$
BEGIN
    p_fate.wait_ms := p_fate.wait_ms + simulator_code.latency(p_steps, p_draw);
    IF p_fate.wait_ms >= p_timeout_ms THEN
        p_fate.verdict := 'silent';
    END IF;
    p_fate.step := coalesce(p_fate.step, p_last_step);
    RETURN p_fate;
END $$;
