-- A new verdict comes with a new message. It was a new frame, of which most was there already. Now the
-- frame stays, and the new message is written behind the leaves: a mark, and a JSON object of messages
-- by their number in the frame, where each has a mark on both sides.
--
-- Servers of earlier releases cannot read that. So it begins, and they are refused, once none of them
-- was heard of for an hour.

ALTER TABLE reports_server.meta ADD
    -- when a server was last heard of that does not know this migration
    older_server_at timestamptz NOT NULL DEFAULT now();

-- Where nobody has written yet, nobody has to be waited for.
UPDATE reports_server.meta SET min_reader = 3
WHERE NOT EXISTS (SELECT FROM reports_server.clusters);

ALTER FUNCTION reports_server.drop_log_v1(int, int) RENAME TO drop_rows_v1;

-- What earlier servers call every 20 seconds.
CREATE FUNCTION reports_server.drop_log_v1(p_cluster int, p_max int)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_dropped bigint := reports_server.drop_rows_v1(p_cluster, p_max);
BEGIN
    -- Last, so that servers of other clusters hardly wait for the row.
    UPDATE reports_server.meta SET older_server_at = now();
    RETURN v_dropped;
END $$;

-- Drops rows as drop_rows_v1 does, and refuses earlier servers where there are none any more.
CREATE FUNCTION reports_server.drop_log_v2(p_cluster int, p_max int)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_dropped bigint := reports_server.drop_rows_v1(p_cluster, p_max);
BEGIN
    UPDATE reports_server.meta SET min_reader = 3
    WHERE min_reader < 3 AND older_server_at < now() - interval '1 hour';
    RETURN v_dropped;
END $$;

-- Commits a batch as commit_v1 does. Where p_base is the hash of the frame that an object has, the one
-- of p_hash differs from it in p_messages alone: a JSON object of messages by number, NULL where that is
-- not known. They are written beside the frame as long as all that are there take no more than a
-- sixteenth of it. p_frame is the whole frame all the same.
CREATE FUNCTION reports_server.commit_v2(
    p_cluster int, p_known_seq bigint, p_known_batch bigint, p_batch bigint,
    p_resource bigint[], p_namespace text[], p_name text[], p_kind smallint[], p_uid text[],
    p_rv bigint[], p_labels text[], p_frame text[], p_hash bigint[], p_leaves text[],
    p_base bigint[], p_messages text[],
    p_digest bigint[], p_tally bigint[], p_scanned bigint[], p_detail text[], p_checks text)
RETURNS TABLE (number int, outcome smallint, next_rv bigint, prev_rv bigint, rv bigint,
               uid text, labels text)
LANGUAGE plpgsql
-- The plan is made once a session, by what the planner knows of tables that may have been empty then,
-- and must not depend on that. So rows are found by a subquery that the planner does not look into
-- (OFFSET 0), and changed at the place where they were found: behind the lock of the cluster nobody
-- else moves them.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_log_end bigint;
    v_seq     bigint;
    v_counter bigint;
    v_bytes   bigint;
    v_batch   bigint;
    v_beside  boolean;
BEGIN
    -- Everything after this statement sees what the holder before has committed.
    SELECT c.log_end INTO v_log_end FROM reports_server.clusters c
    WHERE c.cluster = p_cluster FOR UPDATE;
    SELECT k.seq, k.counter, k.bytes, k.batch INTO v_seq, v_counter, v_bytes, v_batch
    FROM reports_server.commits k WHERE k.cluster = p_cluster ORDER BY k.seq DESC LIMIT 1;
    IF v_seq IS NULL OR ((v_seq <> p_known_seq OR v_batch <> p_known_batch) AND NOT EXISTS (
            SELECT FROM reports_server.commits k
            WHERE k.cluster = p_cluster AND k.seq = p_known_seq AND k.batch = p_known_batch)) THEN
        RETURN QUERY SELECT 0, 1::smallint, v_counter, v_seq, v_seq, NULL::text, NULL::text;
        RETURN;
    END IF;
    SELECT m.min_reader >= 3 INTO v_beside FROM reports_server.meta m;
    IF EXISTS (SELECT FROM reports_server.abandoned a WHERE a.batch = p_batch) THEN
        RAISE EXCEPTION 'batch % was given up', p_batch USING ERRCODE = 'RS001';
    END IF;
    IF v_seq + cardinality(p_kind) >= v_log_end THEN
        PERFORM reports_server.extend_log_v1(
            p_cluster, v_seq + cardinality(p_kind) + 1, 65536);
    END IF;
    IF p_checks IS NOT NULL THEN
        PERFORM reports_server.store_checks_v1(p_cluster, p_checks);
    END IF;
    RETURN QUERY
    WITH op AS MATERIALIZED (
        SELECT d.*, count(*) FILTER (WHERE d.outcome = 0) OVER (
            ORDER BY d.ord ROWS UNBOUNDED PRECEDING) AS nth
        FROM (
            SELECT t.ord::int AS ord, t.resource, t.namespace, t.name, t.kind, t.uid, o.place,
                o.rv AS old_rv, o.uid AS old_uid, o.labels AS old_labels,
                o.frame AS old_frame, o.frame_hash AS old_hash,
                split_part(o.leaves, E'\x02', 2) AS old_messages,
                o.digest AS old_digest, o.report AS old_report, o.tally AS old_tally,
                (CASE WHEN r.gate = 'Held' THEN 5 WHEN r.gate IS DISTINCT FROM 'Open' THEN 4
                      WHEN t.kind = 0 THEN CASE WHEN o.rv IS NULL THEN 0 ELSE 1 END
                      WHEN o.rv IS NULL THEN 2
                      WHEN t.uid <> o.uid OR t.rv <> o.rv THEN 3
                      ELSE 0 END)::smallint AS outcome
            FROM unnest(p_resource, p_namespace, p_name, p_kind, p_uid, p_rv)
                 WITH ORDINALITY AS t(resource, namespace, name, kind, uid, rv, ord)
            LEFT JOIN reports_server.resources r ON r.id = t.resource AND r.cluster = p_cluster
            LEFT JOIN LATERAL (
                SELECT o.ctid AS place, o.* FROM reports_server.objects o
                WHERE o.cluster = p_cluster AND o.resource_id = t.resource
                    AND o.namespace = t.namespace AND o.name = t.name OFFSET 0) o ON true) d
    ), beside AS MATERIALIZED (
        SELECT op.*, CASE WHEN p_hash[op.ord] = op.old_hash THEN op.old_messages
                          WHEN v_beside AND p_base[op.ord] = op.old_hash
                          THEN (coalesce(nullif(op.old_messages, ''), '{}')::jsonb
                                || p_messages[op.ord]::jsonb)::text END AS messages
        FROM op WHERE op.outcome = 0
    ), made AS MATERIALIZED (
        SELECT m.*, CASE WHEN m.is_kept THEN m.old_frame ELSE v_seq + m.nth END AS frame,
            p_leaves[m.ord] || CASE WHEN m.is_kept AND m.messages <> ''
                                    THEN E'\x02' || m.messages ELSE '' END AS leaves
        FROM (SELECT b.*, coalesce(p_hash[b.ord] = b.old_hash OR
                  octet_length(b.messages) <= octet_length(p_frame[b.ord]) / 16, false) AS is_kept
              FROM beside b) m
    ), framed AS (
        INSERT INTO reports_server.frames (cluster, id, text)
        SELECT p_cluster, m.frame, p_frame[m.ord] FROM made m WHERE m.frame = v_seq + m.nth
    ), stale AS (
        INSERT INTO reports_server.stale_frames (cluster, seq, frame)
        SELECT p_cluster, v_seq + m.nth, f.frame
        FROM made m CROSS JOIN LATERAL (
            SELECT m.old_frame WHERE m.kind = 2 OR (m.kind = 1 AND m.frame <> m.old_frame)
            UNION ALL
            SELECT m.frame WHERE m.kind = 2 AND m.frame <> m.old_frame) AS f(frame)
    ), created AS (
        INSERT INTO reports_server.objects
            (cluster, resource_id, namespace, name, uid, rv, as_imported, labels, frame,
             frame_hash, leaves, report, digest, tally, scanned_at)
        SELECT p_cluster, m.resource, m.namespace, m.name, m.uid, v_counter + m.nth, false,
            p_labels[m.ord], m.frame, p_hash[m.ord], m.leaves, v_seq + m.nth,
            p_digest[m.ord], p_tally[m.ord], to_timestamp(p_scanned[m.ord])
        FROM made m WHERE m.kind = 0
    ), updated AS (
        UPDATE reports_server.objects o SET rv = v_counter + m.nth, as_imported = false,
            labels = p_labels[m.ord], frame = m.frame, frame_hash = p_hash[m.ord],
            leaves = m.leaves, digest = p_digest[m.ord], tally = p_tally[m.ord],
            scanned_at = to_timestamp(p_scanned[m.ord])
        FROM made m
        WHERE m.kind = 1 AND o.ctid = m.place
    ), deleted AS (
        DELETE FROM reports_server.objects o USING made m
        WHERE m.kind = 2 AND o.ctid = m.place
    ), logged AS (
        INSERT INTO reports_server.changes
            (cluster, seq, resource_id, rv, prev_rv, type, effect, as_imported, namespace, name,
             prev_labels, frame, leaves)
        SELECT p_cluster, v_seq + m.nth, m.resource, v_counter + m.nth, m.old_rv, m.kind, 0,
            false, m.namespace, m.name,
            CASE WHEN m.old_labels = p_labels[m.ord] THEN '=' ELSE m.old_labels END,
            m.frame, m.leaves
        FROM made m
    ), projected AS MATERIALIZED (
        SELECT reports_server.project_v1(p_cluster, array_agg(m.resource), array_agg(m.namespace),
            array_agg(m.name), array_agg(coalesce(m.old_report, v_seq + m.nth)),
            array_agg(m.old_tally), array_agg(p_tally[m.ord]), array_agg(p_scanned[m.ord]),
            array_agg(p_detail[m.ord])) AS n
        FROM made m WHERE p_digest[m.ord] IS DISTINCT FROM m.old_digest HAVING count(*) > 0
    ), total AS MATERIALIZED (
        SELECT count(*)::int AS n,
            coalesce(sum(octet_length(p_frame[m.ord]) + octet_length(p_leaves[m.ord])), 0)::bigint
                AS bytes
        FROM made m
    ), committed AS (
        INSERT INTO reports_server.commits
            (cluster, seq, counter, batch, changes, records, bytes, refused)
        SELECT p_cluster, v_seq + t.n, v_counter + t.n, p_batch, t.n, false, v_bytes + t.bytes,
            CASE WHEN t.n < cardinality(p_kind) THEN (
                SELECT json_agg(json_build_array(op.ord, op.outcome, op.old_rv, op.old_uid)
                                ORDER BY op.ord)::text
                FROM op WHERE op.outcome <> 0) END
        FROM total t WHERE t.n > 0
    )
    SELECT 0, 0::smallint, v_counter + t.n, v_seq + t.n, v_seq, NULL::text, NULL::text
    -- A part that nobody reads would not be carried out.
    FROM total t LEFT JOIN projected ON projected.n >= 0
    UNION ALL
    (SELECT op.ord, op.outcome, CASE WHEN op.outcome = 0 THEN v_counter + op.nth END,
        op.old_rv, NULL::bigint,
        CASE WHEN op.outcome = 3 THEN op.old_uid END,
        CASE WHEN op.outcome = 0 THEN op.old_labels END
     FROM op ORDER BY op.ord);
END $$;

-- Puts a text together from its frame and its leaves. An empty leaf is the same as the one three
-- before it, "~n" stands for n such leaves, and letters stand for results. What is behind the mark
-- replaces messages. It reads all that it has read before, so it keeps its name.
CREATE OR REPLACE FUNCTION reports_server.report_text_v1(p_frame text, p_leaves text)
RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    v_frame  text[] := string_to_array(p_frame, E'\x02');
    v_new    record;
    v_leaf   text;
    v_leaves text[] := '{}';
    v_count  int := 0;
BEGIN
    FOR v_new IN
        SELECT key::int AS number, value AS message
        FROM jsonb_each_text(nullif(split_part(p_leaves, E'\x02', 2), '')::jsonb)
    LOOP
        v_frame[2 * v_new.number + 2] := v_new.message;
    END LOOP;
    FOREACH v_leaf IN ARRAY string_to_array(split_part(p_leaves, E'\x02', 1), ' ') LOOP
        IF v_leaf = '' OR v_leaf LIKE '~%' THEN
            FOR i IN 1 .. coalesce(nullif(substr(v_leaf, 2), ''), '1')::int LOOP
                v_count := v_count + 1;
                v_leaves[v_count] := v_leaves[v_count - 3];
            END LOOP;
        ELSE
            v_count := v_count + 1;
            v_leaves[v_count] := v_leaf;
        END IF;
    END LOOP;
    RETURN (
        SELECT string_agg(u.piece || CASE u.leaf WHEN 'p' THEN '"pass"' WHEN 'f' THEN '"fail"'
                WHEN 'w' THEN '"warn"' WHEN 'e' THEN '"error"' WHEN 's' THEN '"skip"'
                ELSE coalesce(u.leaf, '') END, '' ORDER BY u.number)
        FROM unnest(string_to_array(array_to_string(v_frame, ''), E'\x01'), v_leaves)
            WITH ORDINALITY AS u(piece, leaf, number));
END $$;
