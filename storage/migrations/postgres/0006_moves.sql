-- Clusters that are moved here from an embedded database while it serves them.
--
-- Until such a cluster is opened it has no row in commits under its own number: those that belong to
-- it wait under the negative number. So every server, also one that knows nothing of moves, finds
-- nothing to go on from, and neither reads nor writes the cluster.

CREATE TABLE reports_server.moves (
    cluster   int         PRIMARY KEY,
    -- the database that is moved
    source    text        NOT NULL,
    -- the newest attempt; what earlier ones still send is refused
    attempt   bigint      NOT NULL,
    begun_at  timestamptz NOT NULL DEFAULT now(),
    -- NULL while the cluster is being filled
    opened_at timestamptz
);

-- Begins to fill a cluster: gives its number, or none where it is not there to be filled, because
-- it holds reports of somebody else or was opened already.
CREATE FUNCTION reports_server.begin_move_v1(
    p_identity text, p_name text, p_source text, p_attempt bigint)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_cluster int;
    v_move    reports_server.moves;
BEGIN
    SELECT cluster INTO v_cluster FROM reports_server.clusters WHERE identity = p_identity;
    IF NOT FOUND THEN
        v_cluster := reports_server.register_v1(p_identity, p_name, true);
        -- Somebody who registered it at the same moment has taken it.
        PERFORM FROM reports_server.clusters WHERE cluster = v_cluster AND xmin = pg_current_xact_id()::xid;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        DELETE FROM reports_server.commits WHERE cluster = v_cluster;
        INSERT INTO reports_server.moves (cluster, source, attempt)
        VALUES (v_cluster, p_source, p_attempt);
        RETURN v_cluster;
    END IF;
    SELECT * INTO v_move FROM reports_server.moves WHERE cluster = v_cluster FOR UPDATE;
    IF NOT FOUND OR v_move.source <> p_source OR v_move.opened_at IS NOT NULL THEN
        RETURN NULL;
    END IF;
    UPDATE reports_server.moves SET attempt = p_attempt WHERE cluster = v_cluster;
    RETURN v_cluster;
END $$;

-- Makes sure that an attempt is still the one that fills the cluster, until the transaction ends.
CREATE FUNCTION reports_server.fence_move_v1(p_cluster int, p_attempt bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM reports_server.moves
    WHERE cluster = p_cluster AND attempt = p_attempt AND opened_at IS NULL FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'cluster % is not filled by attempt % any more', p_cluster, p_attempt
            USING ERRCODE = 'RS002';
    END IF;
END $$;

-- Drops at most p_max rows of each table that an earlier attempt has left. Gives how many.
CREATE FUNCTION reports_server.clear_move_v1(p_cluster int, p_attempt bigint, p_max int)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_table   text;
    v_column  text := 'cluster = ' || p_cluster;
    v_rows    bigint;
    v_dropped bigint := 0;
BEGIN
    PERFORM reports_server.fence_move_v1(p_cluster, p_attempt);
    FOREACH v_table IN ARRAY ARRAY['objects', 'frames', 'stale_frames', 'findings', 'reported', 'summaries', 'tallies',
        'messages', 'imported', 'mirror_events', 'resources', 'dropped_resources', 'definitions']
    LOOP
        EXECUTE format('DELETE FROM reports_server.%1$I WHERE ctid = ANY (ARRAY (
            SELECT ctid FROM reports_server.%1$I WHERE %2$s LIMIT %3$s))', v_table, v_column, p_max);
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        v_dropped := v_dropped + v_rows;
    END LOOP;
    DELETE FROM reports_server.commits WHERE cluster = -p_cluster;
    RETURN v_dropped;
END $$;

-- Empties the log and lets it begin at p_from.
CREATE FUNCTION reports_server.begin_log_v1(p_cluster int, p_attempt bigint, p_from bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_from bigint;
BEGIN
    PERFORM reports_server.fence_move_v1(p_cluster, p_attempt);
    FOR v_from IN
        SELECT from_seq FROM reports_server.log_partitions WHERE cluster = p_cluster
    LOOP
        EXECUTE format('DROP TABLE reports_server.%I', 'changes_' || p_cluster || '_' || v_from);
    END LOOP;
    DELETE FROM reports_server.log_partitions WHERE cluster = p_cluster;
    DELETE FROM reports_server.changes WHERE cluster = p_cluster;
    -- Frames of changes have positive numbers here, those of objects negative ones.
    DELETE FROM reports_server.frames WHERE cluster = p_cluster AND id > 0;
    DELETE FROM reports_server.stale_frames WHERE cluster = p_cluster;
    UPDATE reports_server.clusters SET log_end = p_from
    WHERE cluster = p_cluster AND log_end IS NOT NULL;
    PERFORM reports_server.extend_log_v1(p_cluster, p_from + 1, 65536);
END $$;

-- Forgets a cluster that was being filled and is empty again.
CREATE FUNCTION reports_server.abandon_move_v1(p_cluster int, p_attempt bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM reports_server.fence_move_v1(p_cluster, p_attempt);
    DELETE FROM reports_server.log_partitions WHERE cluster = p_cluster;
    EXECUTE format('DROP TABLE reports_server.%I', 'changes_' || p_cluster);
    DELETE FROM reports_server.checks WHERE cluster = p_cluster;
    DELETE FROM reports_server.moves WHERE cluster = p_cluster;
    DELETE FROM reports_server.clusters WHERE cluster = p_cluster;
END $$;

-- Opens a cluster that was filled: from now on it is one like all others. Gives whether it is open;
-- opening it again changes nothing.
CREATE FUNCTION reports_server.open_move_v1(p_cluster int, p_source text, p_attempt bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM reports_server.clusters WHERE cluster = p_cluster FOR UPDATE;
    PERFORM FROM reports_server.moves
    WHERE cluster = p_cluster AND source = p_source AND attempt = p_attempt FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE reports_server.commits SET cluster = p_cluster WHERE cluster = -p_cluster;
    UPDATE reports_server.moves SET opened_at = now()
    WHERE cluster = p_cluster AND opened_at IS NULL;
    RETURN true;
END $$;
