-- Clusters that are moved from here to another PostgreSQL while servers serve them.
--
-- A cluster that has moved away has no row in commits under its own number any more: the newest is
-- kept under the negative number. So every server, also one that knows nothing of moves, finds nothing to
-- go on from, and neither reads nor writes the cluster. The rest stays as it was.

CREATE TABLE reports_server.departures (
    cluster    int         PRIMARY KEY,
    -- a name that tells this database from every other one that is moved; the same for all attempts
    source     text        NOT NULL,
    -- the newest attempt; only this one can end the move. Each is higher than those before
    attempt    bigint      NOT NULL,
    -- the order that it carries out; empty for none
    order_id   text        NOT NULL,
    -- the cluster's identity in the other database, and its name there
    identity   text        NOT NULL,
    name       text        NOT NULL,
    -- the server whose turn it is, and when it was last heard of
    holder     text        NOT NULL,
    renewed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- changes up to this seq are copied: no server drops later ones meanwhile
    copied     bigint,
    -- how far the server is, as it tells clients: JSON
    told       text,
    -- the orders that were taken back: no server follows them any more
    given_up   text[]      NOT NULL DEFAULT '{}',
    -- NULL until the other database counts; seq is the newest change of that moment
    moved_at   timestamptz,
    seq        bigint,
    -- numbers of the resources here and, in the same order, in the other database
    here       bigint[],
    there      bigint[]
);

-- Servers that follow a cluster that moves away, and the order that each has read; empty for none.
-- A move does not end before all of them can follow.
CREATE TABLE reports_server.followers (
    cluster  int         NOT NULL,
    server   text        NOT NULL,
    order_id text        NOT NULL,
    seen_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (cluster, server)
);

-- Gives a server its turn to move a cluster: 0 says that it has it, with a new attempt; 1 that
-- another server has it, which was heard of within p_lease seconds; 2 that the order was taken back;
-- 3 that the cluster has moved. p_source names this database, and p_attempt is the first attempt,
-- where nothing was noted before.
CREATE FUNCTION reports_server.begin_departure_v1(
    p_cluster int, p_source text, p_attempt bigint, p_identity text, p_name text, p_holder text,
    p_order text, p_lease double precision)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_departure reports_server.departures;
BEGIN
    -- Whoever ends a move holds this lock from before it looks at the attempt.
    PERFORM FROM reports_server.clusters WHERE cluster = p_cluster FOR UPDATE;
    SELECT * INTO v_departure FROM reports_server.departures WHERE cluster = p_cluster;
    IF NOT FOUND THEN
        INSERT INTO reports_server.departures
            (cluster, source, attempt, order_id, identity, name, holder)
        VALUES (p_cluster, p_source, p_attempt, p_order, p_identity, p_name, p_holder);
        RETURN 0;
    END IF;
    IF v_departure.moved_at IS NOT NULL THEN
        RETURN 3;
    END IF;
    IF p_order = ANY (v_departure.given_up) THEN
        RETURN 2;
    END IF;
    IF v_departure.holder <> p_holder
        AND v_departure.renewed_at > clock_timestamp() - make_interval(secs => p_lease) THEN
        RETURN 1;
    END IF;
    UPDATE reports_server.departures SET attempt = v_departure.attempt + 1, order_id = p_order,
        identity = p_identity, name = p_name, holder = p_holder, renewed_at = clock_timestamp(),
        copied = NULL
    WHERE cluster = p_cluster;
    RETURN 0;
END $$;

-- Takes an order back for all servers: 0 says that the caller has a new attempt, to remove what
-- others have copied; 2 that there is nothing to remove, or another server does; 3 that the cluster
-- has moved.
CREATE FUNCTION reports_server.give_up_departure_v1(
    p_cluster int, p_source text, p_attempt bigint, p_identity text, p_name text, p_holder text,
    p_order text)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_departure reports_server.departures;
BEGIN
    PERFORM FROM reports_server.clusters WHERE cluster = p_cluster FOR UPDATE;
    SELECT * INTO v_departure FROM reports_server.departures WHERE cluster = p_cluster;
    IF NOT FOUND THEN
        INSERT INTO reports_server.departures
            (cluster, source, attempt, order_id, identity, name, holder, given_up)
        VALUES (p_cluster, p_source, p_attempt, '', p_identity, p_name, p_holder, ARRAY[p_order]);
        RETURN 2;
    END IF;
    IF v_departure.moved_at IS NOT NULL THEN
        RETURN 3;
    END IF;
    IF p_order = ANY (v_departure.given_up) THEN
        RETURN 2;
    END IF;
    UPDATE reports_server.departures SET given_up = given_up || p_order WHERE cluster = p_cluster;
    -- Another order may be carried out by now.
    IF v_departure.order_id <> p_order THEN
        RETURN 2;
    END IF;
    UPDATE reports_server.departures SET attempt = v_departure.attempt + 1, order_id = '',
        holder = p_holder, renewed_at = clock_timestamp(), copied = NULL, told = NULL
    WHERE cluster = p_cluster;
    RETURN 0;
END $$;

-- Ends a move: from the commit of this on, the other database counts. The caller holds the
-- cluster's lock. Gives whether the attempt is still the one that may do it, and the commit that was
-- copied last, p_seq with p_batch, is the newest one here: a failover may have lost it.
CREATE FUNCTION reports_server.depart_v1(
    p_cluster int, p_attempt bigint, p_seq bigint, p_batch bigint, p_here bigint[],
    p_there bigint[])
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_newest reports_server.commits;
BEGIN
    SELECT * INTO v_newest FROM reports_server.commits
    WHERE cluster = p_cluster ORDER BY seq DESC LIMIT 1;
    IF NOT FOUND OR v_newest.seq <> p_seq OR v_newest.batch <> p_batch THEN
        RETURN false;
    END IF;
    UPDATE reports_server.departures
    SET moved_at = clock_timestamp(), seq = p_seq, here = p_here, there = p_there
    WHERE cluster = p_cluster AND attempt = p_attempt AND moved_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- Whoever was moved here earlier must not open the cluster again.
    DELETE FROM reports_server.moves WHERE cluster = p_cluster;
    DELETE FROM reports_server.commits WHERE cluster IN (p_cluster, -p_cluster);
    v_newest.cluster := -p_cluster;
    INSERT INTO reports_server.commits SELECT v_newest.*;
    RETURN true;
END $$;

-- Begins to fill a cluster like begin_move_v1, also where it was once and has moved away from: what
-- is left of it counts no more, and is dropped by the caller. It is another history then.
-- p_is_ordered says that later attempts of the source have higher numbers. One that others have
-- passed while it was kept waiting must not take over what they have copied.
CREATE FUNCTION reports_server.begin_move_v2(
    p_identity text, p_name text, p_source text, p_attempt bigint, p_is_ordered boolean)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_cluster int;
BEGIN
    PERFORM FROM reports_server.moves m
    JOIN reports_server.clusters c ON c.cluster = m.cluster
    WHERE p_is_ordered AND c.identity = p_identity AND m.source = p_source
        AND m.attempt > p_attempt
    FOR UPDATE OF m;
    IF FOUND THEN
        RAISE EXCEPTION 'a later attempt than % fills the cluster', p_attempt
            USING ERRCODE = 'RS002';
    END IF;
    SELECT c.cluster INTO v_cluster FROM reports_server.clusters c
    JOIN reports_server.departures d ON d.cluster = c.cluster
    WHERE c.identity = p_identity AND d.moved_at IS NOT NULL FOR UPDATE;
    IF NOT FOUND OR EXISTS (SELECT FROM reports_server.commits WHERE cluster = v_cluster) THEN
        RETURN reports_server.begin_move_v1(p_identity, p_name, p_source, p_attempt);
    END IF;
    DELETE FROM reports_server.departures WHERE cluster = v_cluster;
    UPDATE reports_server.clusters SET origin = '', history = gen_random_uuid()
    WHERE cluster = v_cluster;
    INSERT INTO reports_server.moves (cluster, source, attempt)
    VALUES (v_cluster, p_source, p_attempt);
    RETURN v_cluster;
END $$;
