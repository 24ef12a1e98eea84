-- What analysts see: docs/sql.md. Views run with the rights of their owner, so a reader needs no
-- right on a table, and must have none on `changes`: a long read there is in the way of dropping
-- its partitions.
--
-- jsonb knows no NUL, so that character reads as U+FFFD.

CREATE VIEW reports.clusters AS
SELECT c.identity AS cluster, c.name AS cluster_name, c.created_at AS registered_at,
    (SELECT k.committed_at FROM reports_server.commits k WHERE k.cluster = c.cluster
     ORDER BY k.seq DESC LIMIT 1) AS last_write_at
FROM reports_server.clusters c;

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
JOIN reports_server.tallies y ON y.cluster = o.cluster AND y.id = o.tally
CROSS JOIN LATERAL (
    SELECT b.body, CASE WHEN b.body ? 'spec'
        THEN coalesce(b.body #> '{spec,owner}', b.body #> '{metadata,ownerReferences,0}')
        ELSE b.body -> 'scope' END AS subject
    FROM (SELECT replace(o.body, '\u0000', '\ufffd')::jsonb AS body) b) j;

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
CROSS JOIN LATERAL (SELECT replace(o.body, '\u0000', '\ufffd')::jsonb AS body) j
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

-- The counts are added up by number before names are put to them.
CREATE VIEW reports.summary AS
SELECT c.identity AS cluster, c.name AS cluster_name, r.api_group, r.kind,
    nullif(s.namespace, '') AS namespace, k.source, k.policy, k.severity, s.result,
    sum(s.results)::bigint AS results
FROM (
    SELECT s.cluster, s.resource_id, s.namespace, t.check_id, t.result,
        sum(s.reports * t.n)::bigint AS results
    FROM reports_server.summaries s
    JOIN reports_server.tallies y ON y.cluster = s.cluster AND y.id = s.tally
    CROSS JOIN LATERAL unnest(y.checks, y.results, y.counts) AS t (check_id, result, n)
    GROUP BY s.cluster, s.resource_id, s.namespace, t.check_id, t.result
) s
JOIN reports_server.checks k ON k.cluster = s.cluster AND k.id = s.check_id
JOIN reports_server.resources r ON r.cluster = s.cluster AND r.id = s.resource_id
JOIN reports_server.clusters c ON c.cluster = s.cluster
GROUP BY 1, 2, 3, 4, s.namespace, 6, 7, 8, 9;

CREATE VIEW reports.summary_by_policy AS
SELECT c.identity AS cluster, c.name AS cluster_name, r.api_group, r.kind, k.source, k.policy,
    coalesce(sum(s.results) FILTER (WHERE s.result = 'pass'), 0)::bigint AS pass,
    coalesce(sum(s.results) FILTER (WHERE s.result = 'fail'), 0)::bigint AS fail,
    coalesce(sum(s.results) FILTER (WHERE s.result = 'warn'), 0)::bigint AS warn,
    coalesce(sum(s.results) FILTER (WHERE s.result = 'error'), 0)::bigint AS error,
    coalesce(sum(s.results) FILTER (WHERE s.result = 'skip'), 0)::bigint AS skip
FROM (
    SELECT s.cluster, s.resource_id, t.check_id, t.result, sum(s.reports * t.n) AS results
    FROM (
        SELECT cluster, resource_id, tally, sum(reports) AS reports
        FROM reports_server.summaries GROUP BY cluster, resource_id, tally
    ) s
    JOIN reports_server.tallies y ON y.cluster = s.cluster AND y.id = s.tally
    CROSS JOIN LATERAL unnest(y.checks, y.results, y.counts) AS t (check_id, result, n)
    GROUP BY s.cluster, s.resource_id, t.check_id, t.result
) s
JOIN reports_server.checks k ON k.cluster = s.cluster AND k.id = s.check_id
JOIN reports_server.resources r ON r.cluster = s.cluster AND r.id = s.resource_id
JOIN reports_server.clusters c ON c.cluster = s.cluster
GROUP BY 1, 2, 3, 4, 5, 6;

CREATE VIEW reports.summary_by_namespace AS
SELECT c.identity AS cluster, c.name AS cluster_name, r.api_group, r.kind,
    nullif(s.namespace, '') AS namespace, s.reports, s.pass, s.fail, s.warn, s.error, s.skip
FROM (
    SELECT s.cluster, s.resource_id, s.namespace, sum(s.reports)::bigint AS reports,
        sum(s.reports * y.pass)::bigint AS pass, sum(s.reports * y.fail)::bigint AS fail,
        sum(s.reports * y.warn)::bigint AS warn, sum(s.reports * y.error)::bigint AS error,
        sum(s.reports * y.skip)::bigint AS skip
    FROM reports_server.summaries s
    JOIN reports_server.tallies y ON y.cluster = s.cluster AND y.id = s.tally
    GROUP BY s.cluster, s.resource_id, s.namespace
) s
JOIN reports_server.resources r ON r.cluster = s.cluster AND r.id = s.resource_id
JOIN reports_server.clusters c ON c.cluster = s.cluster;

-- A role for those who read: nothing but the views. Whoever may not make roles goes on without;
-- an administrator makes it then, as docs/sql.md says.
DO $$
BEGIN
    IF to_regrole('reports_reader') IS NULL THEN
        BEGIN
            CREATE ROLE reports_reader NOLOGIN;
        EXCEPTION
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'role reports_reader is left to an administrator: see docs/sql.md';
            -- the same, in another database of this server
            WHEN duplicate_object OR unique_violation THEN
                NULL;
        END;
        IF to_regrole('reports_reader') IS NOT NULL THEN
            BEGIN
                ALTER ROLE reports_reader SET default_transaction_read_only = on;
                ALTER ROLE reports_reader SET statement_timeout = '60s';
                ALTER ROLE reports_reader SET idle_in_transaction_session_timeout = '60s';
            EXCEPTION WHEN insufficient_privilege THEN
                NULL;
            END;
        END IF;
    END IF;
    IF to_regrole('reports_reader') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA reports TO reports_reader;
        GRANT SELECT ON ALL TABLES IN SCHEMA reports TO reports_reader;
    END IF;
END $$;
