-- What analysts ask for, kept beside the objects in the transactions that write them: one row for
-- each result that is not a pass, and counts of all results. What a report says is compared by a
-- digest that leaves timestamps out: a scan that finds nothing new writes nothing here.
--
-- Texts that come again and again are kept once a cluster, under a hash of them: checks, messages,
-- and tallies, of which the reports of a namespace share a few.

DO $$
BEGIN
    -- IF NOT EXISTS is not enough: whoever may not create a schema may still use one.
    IF to_regnamespace('reports') IS NULL THEN
        CREATE SCHEMA reports;
    END IF;
END $$;

-- In the order of concern, so that `severity >= 'high'` is an index condition.
CREATE TYPE reports.severity AS ENUM ('info', 'low', 'medium', 'high', 'critical');
CREATE TYPE reports.result AS ENUM ('pass', 'skip', 'warn', 'error', 'fail');

-- What is checked. Never dropped: servers remember which ones they have stored.
CREATE TABLE reports_server.checks (
    cluster  int    NOT NULL,
    id       bigint NOT NULL,
    source   text   COLLATE "C",
    policy   text   COLLATE "C" NOT NULL,
    rule     text   COLLATE "C",
    category text   COLLATE "C",
    severity reports.severity,
    PRIMARY KEY (cluster, id)
);

-- What checks said of what they found.
CREATE TABLE reports_server.messages (
    cluster  int    NOT NULL,
    id       bigint NOT NULL,
    check_id bigint NOT NULL,
    message  text   NOT NULL,
    PRIMARY KEY (cluster, id)
);

-- How many results of which outcome of which check reports have.
CREATE TABLE reports_server.tallies (
    cluster int              NOT NULL,
    id      bigint           NOT NULL,
    checks  bigint[]         NOT NULL,
    results reports.result[] NOT NULL,
    counts  int[]            NOT NULL,
    pass    int              NOT NULL,
    fail    int              NOT NULL,
    warn    int              NOT NULL,
    error   int              NOT NULL,
    skip    int              NOT NULL,
    PRIMARY KEY (cluster, id)
);

-- How many reports of a namespace have a tally.
CREATE TABLE reports_server.summaries (
    cluster     int    NOT NULL,
    resource_id bigint NOT NULL,
    namespace   text   COLLATE "C" NOT NULL,
    tally       bigint NOT NULL,
    reports     bigint NOT NULL,
    PRIMARY KEY (cluster, resource_id, namespace, tally)
) WITH (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX summaries_tally ON reports_server.summaries (cluster, tally);

-- The reports that have findings, under a number that is never given again.
CREATE TABLE reports_server.reported (
    cluster           int    NOT NULL,
    report            bigint NOT NULL,
    resource_id       bigint NOT NULL,
    namespace         text   COLLATE "C" NOT NULL,
    name              text   COLLATE "C" NOT NULL,
    -- the object that the report is about
    subject_kind      text   COLLATE "C",
    subject_namespace text   COLLATE "C",
    subject_name      text   COLLATE "C",
    PRIMARY KEY (cluster, report)
) WITH (autovacuum_vacuum_cost_delay = 0);
CREATE INDEX reported_namespace ON reports_server.reported (cluster, namespace);

CREATE TABLE reports_server.findings (
    cluster           int            NOT NULL,
    report            bigint         NOT NULL,
    -- a hash of the check, the result and the subject
    finding           bigint         NOT NULL,
    check_id          bigint         NOT NULL,
    message           bigint,
    first_seen        timestamptz    NOT NULL,
    result            reports.result NOT NULL,
    -- that of the check
    severity          reports.severity,
    -- the object that the result is about, where it is not the report's
    subject_kind      text           COLLATE "C",
    subject_namespace text           COLLATE "C",
    subject_name      text           COLLATE "C",
    PRIMARY KEY (cluster, report, finding)
) WITH (fillfactor = 90, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX findings_severity ON reports_server.findings (result, severity, cluster, report);
CREATE INDEX findings_check ON reports_server.findings (cluster, check_id, message);

-- Stores checks: a JSON array of [id, [source, policy, rule, category, severity]].
CREATE FUNCTION reports_server.store_checks_v1(p_cluster int, p_checks text)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO reports_server.checks (cluster, id, source, policy, rule, category, severity)
    SELECT p_cluster, (c ->> 0)::bigint, c #>> '{1,0}', c #>> '{1,1}', c #>> '{1,2}',
        c #>> '{1,3}', (c #>> '{1,4}')::reports.severity
    FROM json_array_elements(p_checks::json) AS c
    ON CONFLICT (cluster, id) DO NOTHING
$$;

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
CREATE FUNCTION reports_server.project_v1(
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
        WHERE u.id IS NOT NULL AND NOT EXISTS (
            SELECT FROM reports_server.tallies y WHERE y.cluster = p_cluster AND y.id = u.id)
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

    INSERT INTO reports_server.summaries AS s (cluster, resource_id, namespace, tally, reports)
    SELECT p_cluster, u.resource, u.namespace, v.tally, sum(v.n)
    FROM unnest(p_resource, p_namespace, p_old, p_new) AS u(resource, namespace, old, new)
    CROSS JOIN LATERAL (VALUES (u.old, -1), (u.new, 1)) AS v(tally, n)
    WHERE v.tally IS NOT NULL
    GROUP BY u.resource, u.namespace, v.tally HAVING sum(v.n) <> 0
    ON CONFLICT (cluster, resource_id, namespace, tally)
        DO UPDATE SET reports = s.reports + excluded.reports;

    IF EXISTS (SELECT FROM unnest(p_old) AS u(old) WHERE u.old IS NOT NULL) THEN
        DELETE FROM reports_server.summaries s
        USING (
            SELECT DISTINCT u.resource, u.namespace, u.old
            FROM unnest(p_resource, p_namespace, p_old) AS u(resource, namespace, old)
            WHERE u.old IS NOT NULL
        ) u
        WHERE s.cluster = p_cluster AND s.resource_id = u.resource AND s.namespace = u.namespace
            AND s.tally = u.old AND s.reports = 0;
        WITH there AS MATERIALIZED (
            SELECT u.report, f.id
            FROM unnest(p_report, p_detail) AS u(report, detail)
            CROSS JOIN LATERAL json_to_recordset(u.detail::json -> 'findings') AS f(id bigint)
        ), gone AS (
            DELETE FROM reports_server.findings f
            USING unnest(p_report, p_old) AS u(report, old)
            WHERE u.old IS NOT NULL AND f.cluster = p_cluster AND f.report = u.report
                AND (f.report, f.finding) NOT IN (SELECT t.report, t.id FROM there t)
        )
        DELETE FROM reports_server.reported r
        USING unnest(p_report, p_old) AS u(report, old)
        WHERE u.old IS NOT NULL AND r.cluster = p_cluster AND r.report = u.report
            AND r.report NOT IN (SELECT t.report FROM there t);
    END IF;

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
    ), reported AS (
        INSERT INTO reports_server.reported AS r (cluster, report, resource_id, namespace, name,
            subject_kind, subject_namespace, subject_name)
        SELECT p_cluster, t.report, t.resource, t.namespace, t.name, s.kind, s.namespace, s.name
        FROM there t
        CROSS JOIN LATERAL json_to_record(t.subject) AS s(kind text, namespace text, name text)
        WHERE t.findings::text <> '[]'
        ON CONFLICT (cluster, report) DO UPDATE SET subject_kind = excluded.subject_kind,
            subject_namespace = excluded.subject_namespace, subject_name = excluded.subject_name
        WHERE (r.subject_kind, r.subject_namespace, r.subject_name) IS DISTINCT FROM
            (excluded.subject_kind, excluded.subject_namespace, excluded.subject_name)
    ), said AS (
        INSERT INTO reports_server.messages (cluster, id, check_id, message)
        SELECT DISTINCT ON (f.message) p_cluster, f.message, f."check", f.text
        FROM found f WHERE f.message IS NOT NULL
        ON CONFLICT (cluster, id) DO NOTHING
    )
    INSERT INTO reports_server.findings AS f (cluster, report, finding, check_id, message,
        first_seen, result, severity, subject_kind, subject_namespace, subject_name)
    SELECT p_cluster, n.report, n.id, n."check", n.message, n.scanned_at, n.result, n.severity,
        n.kind, n.namespace, n.name
    FROM found n
    ON CONFLICT (cluster, report, finding) DO UPDATE SET message = excluded.message
        WHERE f.message IS DISTINCT FROM excluded.message;
    RETURN cardinality(p_report);
END $$;

-- The same for objects that are about to be replaced or removed, from what is stored of them. A
-- report that has no number yet gets the one of p_report; p_checks are checks that may not be
-- stored yet.
CREATE FUNCTION reports_server.project_objects_v1(
    p_cluster int, p_resource bigint[], p_namespace text[], p_name text[], p_report bigint[],
    p_digest bigint[], p_new bigint[], p_scanned bigint[], p_detail text[], p_checks text)
RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF p_checks IS NOT NULL THEN
        PERFORM reports_server.store_checks_v1(p_cluster, p_checks);
    END IF;
    RETURN coalesce((
        SELECT reports_server.project_v1(p_cluster, array_agg(u.resource), array_agg(u.namespace),
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

-- Drops at most p_max objects of a resource that was reset, with what is projected of them, and as
-- many of its summaries. Gives how many of both.
CREATE FUNCTION reports_server.drop_objects_v1(p_cluster int, p_resource bigint, p_max int)
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
        RETURNING report
    )
    SELECT count(*), array_agg(report) FILTER (WHERE report IS NOT NULL)
    INTO v_rows, v_reports FROM gone;
    DELETE FROM reports_server.findings
    WHERE cluster = p_cluster AND report = ANY (v_reports);
    DELETE FROM reports_server.reported
    WHERE cluster = p_cluster AND report = ANY (v_reports);
    RETURN v_dropped + v_rows;
END $$;

-- Drops at most p_max rows of each table that nothing refers to any more, from a random
-- place on. Gives how many.
CREATE FUNCTION reports_server.drop_projections_v1(p_cluster int, p_max int)
RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    v_from    bigint := ((random() - 0.5) * 18446744073709000000)::numeric::bigint;
    v_rows    bigint;
    v_dropped bigint;
BEGIN
    -- What a commit is about to refer to must not go.
    PERFORM FROM reports_server.clusters WHERE cluster = p_cluster FOR UPDATE;
    DELETE FROM reports_server.tallies WHERE ctid = ANY (ARRAY (
        SELECT y.ctid FROM (
            SELECT ctid, id FROM reports_server.tallies
            WHERE cluster = p_cluster AND id >= v_from ORDER BY id LIMIT p_max) y
        WHERE NOT EXISTS (SELECT FROM reports_server.summaries s
            WHERE s.cluster = p_cluster AND s.tally = y.id)));
    GET DIAGNOSTICS v_dropped = ROW_COUNT;
    DELETE FROM reports_server.messages WHERE ctid = ANY (ARRAY (
        SELECT m.ctid FROM (
            SELECT ctid, id, check_id FROM reports_server.messages
            WHERE cluster = p_cluster AND id >= v_from ORDER BY id LIMIT p_max) m
        WHERE NOT EXISTS (SELECT FROM reports_server.findings f
            WHERE f.cluster = p_cluster AND f.check_id = m.check_id AND f.message = m.id)));
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    RETURN v_dropped + v_rows;
END $$;
