-- What became of a batch is found out for what the batch costs, however long the log is.
--
-- All writers wait meanwhile. The plan is made by what the planner knows of the log, whose
-- partitions are never analyzed: it could read the log of a cluster from one end to the other and
-- compare each change with each write of the batch, for minutes where a million changes were there;
-- and writes that gave up waiting had to find out in turn. So changes are found by a subquery that
-- the planner does not look into (OFFSET 0), as in commit_v2.
CREATE OR REPLACE FUNCTION reports_server.resolve_v1(
    p_cluster int, p_known_seq bigint, p_batch bigint, p_count int)
RETURNS TABLE (number int, outcome smallint, next_rv bigint, prev_rv bigint, rv bigint,
               uid text, labels text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_commit reports_server.commits;
BEGIN
    PERFORM FROM reports_server.clusters c WHERE c.cluster = p_cluster FOR UPDATE;
    SELECT k.* INTO v_commit FROM reports_server.commits k
    WHERE k.cluster = p_cluster AND k.seq > p_known_seq AND k.batch = p_batch;
    IF NOT FOUND THEN
        INSERT INTO reports_server.abandoned (batch) VALUES (p_batch) ON CONFLICT DO NOTHING;
        RETURN QUERY SELECT 0, 1::smallint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text,
            NULL::text;
        RETURN;
    END IF;
    RETURN QUERY SELECT 0, 0::smallint, v_commit.counter, v_commit.seq,
        v_commit.seq - v_commit.changes, NULL::text, NULL::text;
    RETURN QUERY
    WITH refused AS MATERIALIZED (
        SELECT (e ->> 0)::int AS number, (e ->> 1)::smallint AS outcome, (e ->> 2)::bigint AS rv,
            e ->> 3 AS uid
        FROM json_array_elements(v_commit.refused::json) AS e
    ), made AS (
        SELECT n.number, row_number() OVER (ORDER BY n.number) AS nth
        FROM generate_series(1, p_count) AS n(number)
        WHERE n.number NOT IN (SELECT r.number FROM refused r)
    ), rows AS (
        SELECT r.number, r.outcome, NULL::bigint AS next_rv, r.rv AS prev_rv, NULL::bigint AS rv,
            r.uid, NULL::text AS labels
        FROM refused r
        UNION ALL
        SELECT m.number, 0::smallint, c.rv, c.prev_rv, NULL::bigint, NULL::text, c.prev_labels
        FROM made m CROSS JOIN LATERAL (
            SELECT c.rv, c.prev_rv, c.prev_labels FROM reports_server.changes c
            WHERE c.cluster = p_cluster AND c.seq = v_commit.seq - v_commit.changes + m.nth
            OFFSET 0) c
    )
    SELECT * FROM rows ORDER BY number;
END $$;
