-- What a report says is kept once and not with every version of it: a scan that finds nothing new
-- changes times and counts only. So a text is split into a frame, which has a hole for each number,
-- timestamp and result of a check, and the leaves, which fill the holes. Frames have a table of
-- their own; objects and changes carry the number of a frame and the leaves.
--
-- Servers of before this migration find no body any more, and their function to commit is gone:
-- they answer reads from memory until they are replaced.

UPDATE reports_server.meta SET min_reader = 5;

CREATE TABLE reports_server.frames (
    cluster int    NOT NULL,
    -- the seq of the change that came with it; negative numbers are of before frames
    id      bigint NOT NULL,
    text    text   NOT NULL,
    PRIMARY KEY (cluster, id)
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
-- In the row, where one index finds it; a few kB after compression.
ALTER TABLE reports_server.frames ALTER text SET STORAGE MAIN;
DO $$
BEGIN
    ALTER TABLE reports_server.frames ALTER text SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END $$;

-- Frames that no object has any more. Changes up to seq may refer to them.
CREATE TABLE reports_server.stale_frames (
    cluster int    NOT NULL,
    seq     bigint NOT NULL,
    frame   bigint NOT NULL,
    PRIMARY KEY (cluster, seq, frame)
);

-- prev_labels is '=' where the labels did not change.
-- frame is NULL for a listed state whose object was changed or deleted since.
ALTER TABLE reports_server.changes ADD frame bigint, ADD leaves text NOT NULL DEFAULT '';

INSERT INTO reports_server.frames (cluster, id, text)
SELECT cluster, -report - 1, body FROM reports_server.objects;
INSERT INTO reports_server.frames (cluster, id, text)
SELECT cluster, seq, body FROM reports_server.changes WHERE body IS NOT NULL;
INSERT INTO reports_server.stale_frames (cluster, seq, frame)
SELECT cluster, seq, seq FROM reports_server.changes WHERE body IS NOT NULL;
UPDATE reports_server.changes SET frame = seq WHERE body IS NOT NULL;
UPDATE reports_server.changes c SET frame = -o.report - 1
FROM reports_server.objects o
WHERE c.effect = 2 AND o.cluster = c.cluster AND o.resource_id = c.resource_id
    AND o.namespace = c.namespace AND o.name = c.name AND o.rv = c.rv;
-- Puts a text together from its frame and its leaves. An empty leaf is the same as the one three
-- before it, "~n" stands for n such leaves, and letters stand for results.
CREATE FUNCTION reports_server.report_text_v1(p_frame text, p_leaves text)
RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    v_leaf   text;
    v_leaves text[] := '{}';
    v_count  int := 0;
BEGIN
    FOREACH v_leaf IN ARRAY string_to_array(p_leaves, ' ') LOOP
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
        FROM unnest(string_to_array(p_frame, E'\x01'), v_leaves)
            WITH ORDINALITY AS u(piece, leaf, number));
END $$;

DROP VIEW reports.policy_reports;
DROP VIEW reports.results;
DROP VIEW reports.findings;
ALTER TABLE reports_server.changes DROP COLUMN body;

-- As before, but for the text. What changes with each version comes last: PostgreSQL logs of a row
-- that stays on its page what lies between the first change and the last. Rows are small, and with
-- room for as many again each update of a scan stays on its page.
ALTER TABLE reports_server.objects RENAME TO objects_with_bodies;
CREATE TABLE reports_server.objects (
    cluster     int     NOT NULL,
    resource_id bigint  NOT NULL,
    namespace   text    COLLATE "C" NOT NULL,
    name        text    COLLATE "C" NOT NULL,
    uid         text    NOT NULL,
    -- true while no write of ours has touched the object since it was imported
    as_imported boolean NOT NULL,
    -- JSON object
    labels      text    NOT NULL,
    -- a number of its own, until it is deleted
    report      bigint  NOT NULL,
    frame       bigint  NOT NULL,
    -- equal for equal frames; NULL where that is not known
    frame_hash  bigint,
    -- what is projected of it: a digest, and its tally; NULL for nothing
    digest      bigint,
    tally       bigint,
    -- the newest timestamp of a result
    scanned_at  timestamptz,
    rv          bigint  NOT NULL,
    leaves      text    NOT NULL
) WITH (fillfactor = 55, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
INSERT INTO reports_server.objects
SELECT cluster, resource_id, namespace, name, uid, as_imported, labels, report, -report - 1, NULL,
    digest, tally, scanned_at, rv, ''
FROM reports_server.objects_with_bodies;
DROP TABLE reports_server.objects_with_bodies;
ALTER TABLE reports_server.objects ADD PRIMARY KEY (cluster, resource_id, namespace, name);

CREATE VIEW reports.policy_reports AS
SELECT c.identity AS cluster, c.name AS cluster_name, r.api_group, r.kind,
    nullif(o.namespace, '') AS namespace, o.name, o.uid, o.rv AS resource_version,
    y.pass, y.fail, y.warn, y.error, y.skip, o.scanned_at,
    (j.body #>> '{metadata,creationTimestamp}')::timestamptz AS created_at,
    o.labels::jsonb AS labels,
    j.subject ->> 'kind' AS subject_kind,
    CASE WHEN j.subject ->> 'name' <> ''
         THEN coalesce(nullif(j.subject ->> 'namespace', ''), nullif(o.namespace, '')) END
        AS subject_namespace,
    j.subject ->> 'name' AS subject_name, j.subject ->> 'uid' AS subject_uid,
    j.body AS report
FROM reports_server.objects o
JOIN reports_server.resources r ON r.cluster = o.cluster AND r.id = o.resource_id
JOIN reports_server.clusters c ON c.cluster = o.cluster
JOIN reports_server.frames t ON t.cluster = o.cluster AND t.id = o.frame
JOIN reports_server.tallies y ON y.cluster = o.cluster AND y.id = o.tally
CROSS JOIN LATERAL (
    SELECT b.body, CASE WHEN b.body ? 'spec'
        THEN coalesce(b.body #> '{spec,owner}', b.body #> '{metadata,ownerReferences,0}')
        ELSE b.body -> 'scope' END AS subject
    FROM (SELECT replace(
            reports_server.report_text_v1(t.text, o.leaves), '\u0000', '\ufffd')::jsonb AS body) b) j;

CREATE VIEW reports.results AS
SELECT c.identity AS cluster, c.name AS cluster_name, r.api_group, r.kind,
    nullif(o.namespace, '') AS namespace, o.name,
    e.ord AS number,
    coalesce(nullif(e.item ->> 'source', ''), nullif(j.body ->> 'source', '')) AS source,
    e.item ->> 'policy' AS policy, e.item ->> 'rule' AS rule,
    e.item ->> 'category' AS category, e.item ->> 'severity' AS severity,
    e.item ->> 'result' AS result,
    CASE WHEN jsonb_typeof(e.item -> 'scored') = 'boolean'
         THEN (e.item -> 'scored')::boolean END AS scored,
    e.item ->> 'message' AS message, e.item -> 'properties' AS properties,
    e.item -> 'resources' AS subjects,
    CASE WHEN jsonb_typeof(e.item #> '{timestamp,seconds}') = 'number'
            AND (e.item #> '{timestamp,seconds}')::numeric BETWEEN 0 AND 253402300799
         THEN to_timestamp((e.item #> '{timestamp,seconds}')::double precision) END AS scanned_at
FROM reports_server.objects o
JOIN reports_server.resources r ON r.cluster = o.cluster AND r.id = o.resource_id
JOIN reports_server.clusters c ON c.cluster = o.cluster
JOIN reports_server.frames t ON t.cluster = o.cluster AND t.id = o.frame
CROSS JOIN LATERAL (SELECT replace(
    reports_server.report_text_v1(t.text, o.leaves), '\u0000', '\ufffd')::jsonb AS body) j
CROSS JOIN LATERAL jsonb_array_elements(
    CASE WHEN jsonb_typeof(j.body -> 'results') = 'array' THEN j.body -> 'results'
         WHEN jsonb_typeof(j.body #> '{spec,results}') = 'array' THEN j.body #> '{spec,results}'
    END) WITH ORDINALITY AS e (item, ord)
WHERE o.tally IS NOT NULL;

CREATE VIEW reports.findings AS
SELECT c.identity AS cluster, c.name AS cluster_name, r.api_group, r.kind,
    nullif(p.namespace, '') AS namespace, p.name,
    k.source, k.policy, k.rule, k.category, f.severity, f.result,
    coalesce(f.subject_kind, p.subject_kind) AS subject_kind,
    CASE WHEN f.subject_name IS NULL THEN p.subject_namespace ELSE f.subject_namespace END
        AS subject_namespace,
    coalesce(f.subject_name, p.subject_name) AS subject_name,
    (SELECT m.message FROM reports_server.messages m
     WHERE m.cluster = f.cluster AND m.id = f.message) AS message,
    f.first_seen,
    (SELECT o.scanned_at FROM reports_server.objects o
     WHERE o.cluster = p.cluster AND o.resource_id = p.resource_id
         AND o.namespace = p.namespace AND o.name = p.name) AS scanned_at,
    f.report AS report_id, f.finding AS finding_id
FROM reports_server.findings f
JOIN reports_server.reported p ON p.cluster = f.cluster AND p.report = f.report
JOIN reports_server.checks k ON k.cluster = f.cluster AND k.id = f.check_id
JOIN reports_server.resources r ON r.cluster = p.cluster AND r.id = p.resource_id
JOIN reports_server.clusters c ON c.cluster = f.cluster;

DO $$
BEGIN
    IF to_regrole('reports_reader') IS NOT NULL THEN
        GRANT SELECT ON reports.policy_reports, reports.results, reports.findings
            TO reports_reader;
    END IF;
END $$;

-- As project_v1, but what is stored is read by its key, also where a plan was made while tables were
-- empty, and a row that stays as it is is not even locked.
--
-- Brings the projections from what some reports said to what they say, each report once. The
-- caller holds the cluster's lock.
--
-- Of each: p_report its number; p_old its tally until now and p_new the one from now on (NULL for
-- none); p_scanned when it was made, in seconds since the epoch; p_detail what it says from now on
-- (NULL for nothing) as JSON:
--   subject   {kind, namespace, name} of the object that the report is about
--   tally     for each outcome the checks that had it, each as often as there are results
--   findings  array of {id, check, result, severity, message, text, kind, namespace, name};
--             message is the number of text, the last three are of the object that was checked
CREATE FUNCTION reports_server.project_v2(
    p_cluster int, p_resource bigint[], p_namespace text[], p_name text[], p_report bigint[],
    p_old bigint[], p_new bigint[], p_scanned bigint[], p_detail text[])
RETURNS int LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = on SET jit = off
AS $$
BEGIN
    INSERT INTO reports_server.tallies
        (cluster, id, checks, results, counts, pass, fail, warn, error, skip)
    SELECT p_cluster, d.id, p.checks, p.results, p.counts, p.pass, p.fail, p.warn, p.error, p.skip
    FROM (
        SELECT u.id, min(u.detail) AS detail FROM unnest(p_new, p_detail) AS u(id, detail)
        LEFT JOIN LATERAL (
            SELECT y.id FROM reports_server.tallies y
            WHERE y.cluster = p_cluster AND y.id = u.id OFFSET 0) y ON true
        WHERE u.id IS NOT NULL AND y.id IS NULL
        GROUP BY u.id
    ) d CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(t.check_id), '{}') AS checks,
            coalesce(array_agg(t.result::reports.result), '{}') AS results,
            coalesce(array_agg(t.n), '{}') AS counts,
            coalesce(sum(t.n) FILTER (WHERE t.result = 'pass'), 0) AS pass,
            coalesce(sum(t.n) FILTER (WHERE t.result = 'fail'), 0) AS fail,
            coalesce(sum(t.n) FILTER (WHERE t.result = 'warn'), 0) AS warn,
            coalesce(sum(t.n) FILTER (WHERE t.result = 'error'), 0) AS error,
            coalesce(sum(t.n) FILTER (WHERE t.result = 'skip'), 0) AS skip
        FROM (
            SELECT r.key AS result, c.value::bigint AS check_id, count(*)::int AS n
            FROM json_each(d.detail::json -> 'tally') AS r
            CROSS JOIN LATERAL json_array_elements_text(r.value) AS c
            GROUP BY r.key, c.value
        ) t
    ) p
    ON CONFLICT (cluster, id) DO NOTHING;

    WITH delta AS MATERIALIZED (
        SELECT u.resource, u.namespace, v.tally, sum(v.n) AS n
        FROM unnest(p_resource, p_namespace, p_old, p_new) AS u(resource, namespace, old, new)
        CROSS JOIN LATERAL (VALUES (u.old, -1), (u.new, 1)) AS v(tally, n)
        WHERE v.tally IS NOT NULL
        GROUP BY u.resource, u.namespace, v.tally HAVING sum(v.n) <> 0
    ), stored AS MATERIALIZED (
        SELECT d.resource, d.namespace, d.tally, s.place, coalesce(s.reports, 0) + d.n AS reports
        FROM delta d LEFT JOIN LATERAL (
            SELECT s.ctid AS place, s.reports FROM reports_server.summaries s
            WHERE s.cluster = p_cluster AND s.resource_id = d.resource
                AND s.namespace = d.namespace AND s.tally = d.tally OFFSET 0) s ON true
    ), changed AS (
        UPDATE reports_server.summaries s SET reports = d.reports
        FROM stored d WHERE s.ctid = d.place AND d.reports <> 0
    ), gone AS (
        DELETE FROM reports_server.summaries s
        USING stored d WHERE s.ctid = d.place AND d.reports = 0
    )
    INSERT INTO reports_server.summaries (cluster, resource_id, namespace, tally, reports)
    SELECT p_cluster, d.resource, d.namespace, d.tally, d.reports
    FROM stored d WHERE d.place IS NULL;

    WITH there AS MATERIALIZED (
        SELECT u.resource, u.namespace, u.name, u.report, to_timestamp(u.scanned) AS scanned_at,
            d.subject, d.findings
        FROM unnest(p_resource, p_namespace, p_name, p_report, p_scanned, p_detail)
            AS u(resource, namespace, name, report, scanned, detail)
        CROSS JOIN LATERAL json_to_record(u.detail::json) AS d(subject json, findings json)
    ), found AS MATERIALIZED (
        SELECT t.report, coalesce(t.scanned_at, now()) AS scanned_at, f.*
        FROM there t CROSS JOIN LATERAL json_to_recordset(t.findings) AS f (id bigint,
            "check" bigint, result reports.result, severity reports.severity, message bigint,
            text text, kind text, namespace text, name text)
    ), stored AS MATERIALIZED (
        SELECT u.report, f.place, f.finding, f.message
        FROM unnest(p_report) AS u(report) CROSS JOIN LATERAL (
            SELECT f.ctid AS place, f.finding, f.message FROM reports_server.findings f
            WHERE f.cluster = p_cluster AND f.report = u.report OFFSET 0) f
    ), gone AS (
        DELETE FROM reports_server.findings f USING stored s
        WHERE f.ctid = s.place
            AND (s.report, s.finding) NOT IN (SELECT n.report, n.id FROM found n)
    ), reworded AS (
        UPDATE reports_server.findings f SET message = w.message
        FROM (SELECT s.place, n.message FROM stored s
              JOIN found n ON n.report = s.report AND n.id = s.finding
              WHERE n.message IS DISTINCT FROM s.message) w
        WHERE f.ctid = w.place
    ), subjects AS MATERIALIZED (
        SELECT t.resource, t.namespace AS place, t.name AS report_name, t.report, s.kind,
            s.namespace, s.name
        FROM there t
        CROSS JOIN LATERAL json_to_record(t.subject) AS s(kind text, namespace text, name text)
        WHERE t.report IN (SELECT n.report FROM found n)
    ), known AS MATERIALIZED (
        SELECT u.report, r.place, r.subject_kind, r.subject_namespace, r.subject_name
        FROM unnest(p_report) AS u(report) CROSS JOIN LATERAL (
            SELECT r.ctid AS place, r.subject_kind, r.subject_namespace, r.subject_name
            FROM reports_server.reported r
            WHERE r.cluster = p_cluster AND r.report = u.report OFFSET 0) r
    ), forgotten AS (
        DELETE FROM reports_server.reported r USING known k
        WHERE r.ctid = k.place AND k.report NOT IN (SELECT s.report FROM subjects s)
    ), moved AS (
        UPDATE reports_server.reported r SET subject_kind = w.kind,
            subject_namespace = w.namespace, subject_name = w.name
        FROM (SELECT k.place, s.kind, s.namespace, s.name FROM known k
              JOIN subjects s ON s.report = k.report
              WHERE (k.subject_kind, k.subject_namespace, k.subject_name)
                  IS DISTINCT FROM (s.kind, s.namespace, s.name)) w
        WHERE r.ctid = w.place
    ), reported AS (
        INSERT INTO reports_server.reported (cluster, report, resource_id, namespace, name,
            subject_kind, subject_namespace, subject_name)
        SELECT p_cluster, s.report, s.resource, s.place, s.report_name, s.kind, s.namespace, s.name
        FROM subjects s WHERE s.report NOT IN (SELECT k.report FROM known k)
    ), said AS (
        INSERT INTO reports_server.messages (cluster, id, check_id, message)
        SELECT DISTINCT ON (f.message) p_cluster, f.message, f."check", f.text
        FROM found f WHERE f.message IS NOT NULL
        ON CONFLICT (cluster, id) DO NOTHING
    )
    INSERT INTO reports_server.findings (cluster, report, finding, check_id, message, first_seen,
        result, severity, subject_kind, subject_namespace, subject_name)
    SELECT p_cluster, n.report, n.id, n."check", n.message, n.scanned_at, n.result, n.severity,
        n.kind, n.namespace, n.name
    FROM found n
    WHERE (n.report, n.id) NOT IN (SELECT s.report, s.finding FROM stored s);
    RETURN cardinality(p_report);
END $$;

-- The same for objects that are about to be replaced or removed, from what is stored of them. A
-- report that has no number yet gets the one of p_report; p_checks are checks that may not be
-- stored yet.
CREATE FUNCTION reports_server.project_objects_v2(
    p_cluster int, p_resource bigint[], p_namespace text[], p_name text[], p_report bigint[],
    p_digest bigint[], p_new bigint[], p_scanned bigint[], p_detail text[], p_checks text)
RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF p_checks IS NOT NULL THEN
        PERFORM reports_server.store_checks_v1(p_cluster, p_checks);
    END IF;
    RETURN coalesce((
        SELECT reports_server.project_v2(p_cluster, array_agg(u.resource), array_agg(u.namespace),
            array_agg(u.name), array_agg(coalesce(o.report, u.report)), array_agg(o.tally),
            array_agg(u.new), array_agg(u.scanned), array_agg(u.detail))
        FROM unnest(p_resource, p_namespace, p_name, p_report, p_digest, p_new, p_scanned, p_detail)
            AS u(resource, namespace, name, report, digest, new, scanned, detail)
        LEFT JOIN LATERAL (
            SELECT o.report, o.digest, o.tally FROM reports_server.objects o
            WHERE o.cluster = p_cluster AND o.resource_id = u.resource
                AND o.namespace = u.namespace AND o.name = u.name OFFSET 0) o ON true
        WHERE o.digest IS DISTINCT FROM u.digest
        HAVING count(*) > 0), 0);
END $$;

-- Servers that would leave the frames out must not commit.
DROP FUNCTION reports_server.commit_v1(int, bigint, bigint, bigint, bigint[], text[], text[],
    smallint[], text[], bigint[], text[], text[], bigint[], bigint[], bigint[], text[], text);

-- Commits a batch of writes, at most one a key, each with its own outcome.
--
-- (p_known_seq, p_known_batch) is a commit that the caller has seen: where it is missing, this is
-- another history than the caller's, or the caller has slept too long, and nothing is written.
-- p_batch is the batch's own random number.
-- Of each write: p_kind 0 creates, 1 updates, 2 deletes; p_uid is the uid of the new object, or
-- the one that the stored object must have (NULL: any); p_rv is the version that the stored object
-- must have (NULL: any). p_frame, p_hash and p_leaves are its text, for a deletion the last one.
-- p_digest, p_tally, p_detail and p_scanned (seconds since the epoch) are what is projected of the
-- new object, NULL for nothing; p_checks are checks that may not be stored yet.
--
-- The row with number 0 is about the batch: outcome 0 says that all is well, 1 that the history is
-- another one; rv and prev_rv are the newest seq before and after, next_rv the counter after.
-- The others are about the writes, in their order: outcome 0 written (next_rv is the new version;
-- prev_rv and labels are of the object before, if there was one); 1 exists already; 2 not found;
-- 3 conflict (with uid and prev_rv as stored); 4 gate closed; 5 gate held.
CREATE FUNCTION reports_server.commit_v2(
    p_cluster int, p_known_seq bigint, p_known_batch bigint, p_batch bigint,
    p_resource bigint[], p_namespace text[], p_name text[], p_kind smallint[], p_uid text[],
    p_rv bigint[], p_labels text[], p_frame text[], p_hash bigint[], p_leaves text[],
    p_digest bigint[], p_tally bigint[], p_scanned bigint[], p_detail text[], p_checks text)
RETURNS TABLE (number int, outcome smallint, next_rv bigint, prev_rv bigint, rv bigint,
               uid text, labels text)
LANGUAGE plpgsql
-- The plan must not depend on how large the tables were when it was made.
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
    ), made AS MATERIALIZED (
        SELECT op.*, CASE WHEN p_hash[op.ord] = op.old_hash THEN op.old_frame
                          ELSE v_seq + op.nth END AS frame
        FROM op WHERE op.outcome = 0
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
            p_labels[m.ord], m.frame, p_hash[m.ord], p_leaves[m.ord], v_seq + m.nth,
            p_digest[m.ord], p_tally[m.ord], to_timestamp(p_scanned[m.ord])
        FROM made m WHERE m.kind = 0
    ), updated AS (
        UPDATE reports_server.objects o SET rv = v_counter + m.nth, as_imported = false,
            labels = p_labels[m.ord], frame = m.frame, frame_hash = p_hash[m.ord],
            leaves = p_leaves[m.ord], digest = p_digest[m.ord], tally = p_tally[m.ord],
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
            m.frame, p_leaves[m.ord]
        FROM made m
    ), projected AS MATERIALIZED (
        SELECT reports_server.project_v2(p_cluster, array_agg(m.resource), array_agg(m.namespace),
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

-- Drops what no reader needs any more: partitions of the log as a whole, rows of other tables at
-- most p_max. Gives how many of both. What a long reader is in the way of is left for the next
-- time, rather than have writers wait behind it.
CREATE FUNCTION reports_server.drop_log_v2(p_cluster int, p_max int)
RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_compacted bigint;
    v_log_end   bigint;
    v_rows      bigint;
    v_dropped   bigint := 0;
    v_part      record;
BEGIN
    SELECT compacted, log_end INTO v_compacted, v_log_end
    FROM reports_server.clusters WHERE cluster = p_cluster FOR UPDATE;
    DELETE FROM reports_server.commits WHERE ctid = ANY (ARRAY (
        SELECT ctid FROM reports_server.commits
        WHERE cluster = p_cluster AND seq < v_compacted ORDER BY seq LIMIT p_max));
    GET DIAGNOSTICS v_dropped = ROW_COUNT;
    WITH gone AS (
        DELETE FROM reports_server.stale_frames WHERE ctid = ANY (ARRAY (
            SELECT ctid FROM reports_server.stale_frames
            WHERE cluster = p_cluster AND seq <= v_compacted ORDER BY seq LIMIT p_max))
        RETURNING frame
    )
    DELETE FROM reports_server.frames f USING gone
    WHERE f.cluster = p_cluster AND f.id = gone.frame;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    v_dropped := v_dropped + v_rows;
    DELETE FROM reports_server.abandoned WHERE abandoned_at < now() - interval '7 days';
    IF v_log_end IS NULL THEN
        DELETE FROM reports_server.changes
        WHERE cluster = p_cluster AND seq = ANY (ARRAY (
            SELECT seq FROM reports_server.changes
            WHERE cluster = p_cluster AND seq <= v_compacted ORDER BY seq LIMIT p_max));
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        RETURN v_dropped + v_rows;
    END IF;
    PERFORM set_config('lock_timeout', '50ms', true);
    FOR v_part IN
        SELECT from_seq, format('changes_%s_%s', p_cluster, from_seq) AS name
        FROM reports_server.log_partitions
        WHERE cluster = p_cluster AND to_seq <= v_compacted + 1 ORDER BY from_seq LIMIT 8
    LOOP
        BEGIN
            EXECUTE format('ALTER TABLE reports_server.%I DETACH PARTITION reports_server.%I',
                           'changes_' || p_cluster, v_part.name);
        EXCEPTION WHEN lock_not_available THEN
            EXIT;
        END;
        EXECUTE format('DROP TABLE reports_server.%I', v_part.name);
        DELETE FROM reports_server.log_partitions
        WHERE cluster = p_cluster AND from_seq = v_part.from_seq;
        v_dropped := v_dropped + 1;
    END LOOP;
    RETURN v_dropped;
END $$;

-- Drops at most p_max objects of a resource that was reset, with what is projected of them, and as
-- many of its summaries. Gives how many of both.
CREATE FUNCTION reports_server.drop_objects_v2(p_cluster int, p_resource bigint, p_max int)
RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_reports bigint[];
    v_rows    bigint;
    v_dropped bigint;
BEGIN
    DELETE FROM reports_server.summaries WHERE ctid = ANY (ARRAY (
        SELECT ctid FROM reports_server.summaries
        WHERE cluster = p_cluster AND resource_id = p_resource LIMIT p_max));
    GET DIAGNOSTICS v_dropped = ROW_COUNT;
    WITH gone AS (
        DELETE FROM reports_server.objects WHERE ctid = ANY (ARRAY (
            SELECT ctid FROM reports_server.objects
            WHERE cluster = p_cluster AND resource_id = p_resource LIMIT p_max))
        RETURNING report, frame
    ), stale AS (
        -- Changes that are still in the log refer to them.
        INSERT INTO reports_server.stale_frames (cluster, seq, frame)
        SELECT p_cluster, k.seq, g.frame FROM gone g CROSS JOIN (
            SELECT seq FROM reports_server.commits
            WHERE cluster = p_cluster ORDER BY seq DESC LIMIT 1) k
    )
    SELECT count(*), array_agg(report) FILTER (WHERE report IS NOT NULL)
    INTO v_rows, v_reports FROM gone;
    DELETE FROM reports_server.findings
    WHERE cluster = p_cluster AND report = ANY (v_reports);
    DELETE FROM reports_server.reported
    WHERE cluster = p_cluster AND report = ANY (v_reports);
    RETURN v_dropped + v_rows;
END $$;
