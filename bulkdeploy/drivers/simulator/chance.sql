-- Functions stand in a schema of their own, which is made anew whenever they change.

CREATE SCHEMA simulator_code;

-- Chance: everything random in a call follows from the one number that the caller drew, so a
-- seeded caller sees the same latencies and faults again.

-- A number in [0, 1) for this draw and salt; salts give independent numbers. (PostgreSQL's own
-- hash spreads the bits; the lowest 53 of them make a double.)
CREATE FUNCTION simulator_code.chance(p_draw double precision, p_salt bigint) RETURNS double precision
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (hashfloat8extended(p_draw, p_salt) & ((1::bigint << 53) - 1)) / 9007199254740992.0::double precision;

-- One latency in ms: fixed = mean; uniform = mean - spread .. mean + spread; exponential = of that
-- mean; normal = of that mean and deviation (Box-Muller). Never below 0.
CREATE FUNCTION simulator_code.latency_of(
    p_distribution text, p_mean_ms double precision, p_spread_ms double precision,
    p_first double precision, p_second double precision
) RETURNS double precision
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN greatest(0, CASE p_distribution
    WHEN 'fixed' THEN p_mean_ms
    WHEN 'uniform' THEN p_mean_ms + (2 * p_first - 1) * p_spread_ms
    WHEN 'exponential' THEN -ln(1 - p_first) * p_mean_ms
    ELSE p_mean_ms + p_spread_ms * sqrt(-2 * ln(1 - p_first)) * cos(2 * pi() * p_second)
END);

-- What these steps take together, in ms, scaled. (A loop over few rows, usually none: setting up one
-- statement with all that arithmetic costs more than everything else in a call.)
CREATE FUNCTION simulator_code.latency(p_steps text[], p_draw double precision) RETURNS double precision
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_total double precision := 0;
    v_row simulator.latencies;
BEGIN
    FOR v_row IN SELECT * FROM simulator.latencies WHERE step = ANY (p_steps) LOOP
        v_total := v_total + simulator_code.latency_of(
            v_row.distribution, v_row.mean_ms, v_row.spread_ms,
            simulator_code.chance(p_draw, hashtextextended(v_row.step, 1)),
            simulator_code.chance(p_draw, hashtextextended(v_row.step, 2))
        );
    END LOOP;
    IF v_total > 0 THEN
        v_total := v_total * (SELECT latency_scale FROM simulator.settings);
    END IF;
    RETURN v_total;
END $$;
