-- Clusters that are moved from here to another PostgreSQL while servers serve them.
--
-- A cluster that has moved away has no row in commits under its own number any more: they are kept
-- under the negative number. So every server, also one that knows nothing of moves, finds nothing to
-- go on from, and neither reads nor writes the cluster. The rest stays as it was.
--
-- Every transaction that fills the other database takes the next number of the attempt, and the mark
-- by which a cluster moves away has the last one: under that alone the other database is opened. Where
-- it has lost something before, it has a lower number: the cluster is taken back here then, and
-- nothing is lost.

CREATE TABLE reports_server.departures (
    cluster    int         PRIMARY KEY,
    -- a name that tells this database from every other one that is moved; the same for all attempts
    source     text        NOT NULL,
    -- the newest attempt; only this one can end the move. Each is higher than those before, and than
    -- the numbers of what they did, by a random step: two of them have different numbers also where a
    -- failover has lost one. Of a cluster that has moved, the number under which the other database is
    -- opened
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
    -- false while the other database may have a copy, or a part of one, that does not count
    is_clean   boolean     NOT NULL DEFAULT true,
    -- NULL until the other database counts; the others are the newest commit of that moment
    moved_at   timestamptz,
    seq        bigint,
    batch      bigint,
    counter    bigint,
    -- numbers of the resources here and, in the same order, in the other database
    here       bigint[],
    there      bigint[],
    -- when a server was first heard of that has opened the other database, if one was
    arrived_at timestamptz,
    -- whether what has moved is still here as it was: it is not once the cluster is filled again
    is_kept    boolean     NOT NULL DEFAULT true
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

-- The order by which a cluster is filled, or was.
ALTER TABLE reports_server.moves ADD COLUMN order_id text NOT NULL DEFAULT '';

-- Gives the number of an attempt behind another one, and behind all that it can take.
CREATE FUNCTION reports_server.next_attempt_v1(p_attempt bigint)
RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT p_attempt + 4294967296 + floor(random() * 4294967296)::bigint
$$;

-- Gives a server its turn to move a cluster: 0 says that it has it, with a new attempt; 1 that
-- another server has it, which was heard of within p_lease seconds; 2 that the order was taken back;
-- 3 that the cluster has moved. p_source names this database, and p_attempt is the lowest number that
-- the attempt may have.
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
            (cluster, source, attempt, order_id, identity, name, holder, is_clean)
        VALUES (p_cluster, p_source, p_attempt, p_order, p_identity, p_name, p_holder, false);
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
    UPDATE reports_server.departures SET order_id = p_order, identity = p_identity, name = p_name,
        attempt = greatest(p_attempt, reports_server.next_attempt_v1(v_departure.attempt)), holder = p_holder,
        renewed_at = clock_timestamp(), copied = NULL, is_clean = false
    WHERE cluster = p_cluster;
    RETURN 0;
END $$;

-- Takes an order back for all servers: 0 says that the caller has a new attempt, to remove what was
-- copied; 1 that another server removes it, which was heard of within p_lease seconds; 2 that nothing
-- is left of it; 3 that the cluster has moved.
CREATE FUNCTION reports_server.give_up_departure_v1(
    p_cluster int, p_source text, p_attempt bigint, p_identity text, p_name text, p_holder text,
    p_order text, p_lease double precision)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_departure reports_server.departures;
    v_known     boolean;
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
    v_known := p_order = ANY (v_departure.given_up);
    IF NOT v_known THEN
        UPDATE reports_server.departures SET given_up = given_up || p_order
        WHERE cluster = p_cluster;
    END IF;
    -- Another order may be carried out by now.
    IF v_departure.order_id <> p_order OR v_departure.is_clean THEN
        RETURN 2;
    END IF;
    -- Whoever copies is stopped at once, but not whoever removes.
    IF v_known AND v_departure.holder <> p_holder
        AND v_departure.renewed_at > clock_timestamp() - make_interval(secs => p_lease) THEN
        RETURN 1;
    END IF;
    UPDATE reports_server.departures SET holder = p_holder, renewed_at = clock_timestamp(),
        attempt = greatest(p_attempt, reports_server.next_attempt_v1(v_departure.attempt)), copied = NULL, told = NULL
    WHERE cluster = p_cluster;
    RETURN 0;
END $$;

-- Ends a move: from the commit of this on, the other database counts. The caller holds the
-- cluster's lock. Gives whether the attempt is still the one that may do it, and the commit that was
-- copied last, p_seq with p_batch, is the newest one here: a failover may have lost it. p_attempt is
-- that of p_holder; p_moved is the number under which the other database is opened.
CREATE FUNCTION reports_server.depart_v1(
    p_cluster int, p_attempt bigint, p_holder text, p_moved bigint, p_seq bigint, p_batch bigint,
    p_here bigint[], p_there bigint[])
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
    SET attempt = p_moved, moved_at = clock_timestamp(), seq = p_seq, batch = p_batch,
        counter = v_newest.counter, here = p_here, there = p_there, arrived_at = NULL,
        is_kept = true
    WHERE cluster = p_cluster AND attempt = p_attempt AND holder = p_holder AND moved_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- Whoever was moved here earlier must not open the cluster again.
    DELETE FROM reports_server.moves WHERE cluster = p_cluster;
    -- Kept, all of them: without its commits, the log would be of no use to whoever takes it back.
    DELETE FROM reports_server.commits WHERE cluster = -p_cluster;
    UPDATE reports_server.commits SET cluster = -p_cluster WHERE cluster = p_cluster;
    RETURN true;
END $$;

-- Has a cluster count here again that has moved away by an attempt: the other database has lost a part
-- of the copy. The caller holds the cluster's lock. Gives whether the cluster is here: what is left of
-- it may have been dropped, or be old, as the other database was in use.
CREATE FUNCTION reports_server.take_back_v1(p_cluster int, p_attempt bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    -- Nobody opens the other database by this attempt any more.
    UPDATE reports_server.departures SET attempt = reports_server.next_attempt_v1(p_attempt),
        holder = '', renewed_at = '-infinity', copied = NULL, told = NULL, moved_at = NULL,
        seq = NULL, batch = NULL, counter = NULL, here = NULL, there = NULL
    WHERE cluster = p_cluster AND attempt = p_attempt AND moved_at IS NOT NULL
        AND arrived_at IS NULL AND is_kept;
    IF FOUND THEN
        UPDATE reports_server.commits SET cluster = p_cluster WHERE cluster = -p_cluster;
    END IF;
    -- Another server may have done it.
    RETURN EXISTS (SELECT FROM reports_server.commits WHERE cluster = p_cluster);
END $$;

-- Begins to fill a cluster, also where it was once and has moved away from: what is left of it counts
-- no more, and is dropped by the caller. It is another history then. p_is_ordered says that later
-- attempts of the source have higher numbers: one that others have passed while it was kept waiting
-- must not take over what they have copied.
--
-- Gives the cluster and 0 where it may be filled; 1 where it holds reports of somebody else; 2 where it
-- was filled and opened by this order already, with the attempt; 3 where a later attempt fills it.
CREATE FUNCTION reports_server.begin_move_v2(
    p_identity text, p_name text, p_source text, p_attempt bigint, p_is_ordered boolean,
    p_order text)
RETURNS TABLE (cluster int, outcome int, attempt bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_cluster int;
    v_move    reports_server.moves;
BEGIN
    SELECT c.cluster INTO v_cluster FROM reports_server.clusters c
    WHERE c.identity = p_identity FOR UPDATE;
    IF NOT FOUND THEN
        v_cluster := reports_server.begin_move_v1(p_identity, p_name, p_source, p_attempt);
        UPDATE reports_server.moves m SET order_id = p_order WHERE m.cluster = v_cluster;
        RETURN QUERY SELECT v_cluster, (v_cluster IS NULL)::int, p_attempt;
        RETURN;
    END IF;
    -- Looked at behind the lock: of two attempts, the second one finds what the first one has noted.
    SELECT m.* INTO v_move FROM reports_server.moves m WHERE m.cluster = v_cluster FOR UPDATE;
    IF FOUND THEN
        IF v_move.source <> p_source THEN
            RETURN QUERY SELECT v_cluster, 1, v_move.attempt;
        ELSIF v_move.opened_at IS NOT NULL THEN
            RETURN QUERY SELECT v_cluster,
                CASE WHEN p_is_ordered AND v_move.order_id = p_order THEN 2 ELSE 1 END,
                v_move.attempt;
        ELSIF p_is_ordered AND v_move.attempt > p_attempt THEN
            RETURN QUERY SELECT v_cluster, 3, v_move.attempt;
        ELSE
            UPDATE reports_server.moves m SET attempt = p_attempt, order_id = p_order
            WHERE m.cluster = v_cluster;
            RETURN QUERY SELECT v_cluster, 0, p_attempt;
        END IF;
        RETURN;
    END IF;
    -- Where the cluster went stays known until it is opened here.
    UPDATE reports_server.departures d SET is_kept = false
    WHERE d.cluster = v_cluster AND d.moved_at IS NOT NULL;
    IF NOT FOUND THEN
        RETURN QUERY SELECT v_cluster, 1, 0::bigint;
        RETURN;
    END IF;
    UPDATE reports_server.clusters c SET origin = '', history = gen_random_uuid()
    WHERE c.cluster = v_cluster;
    INSERT INTO reports_server.moves (cluster, source, attempt, order_id)
    VALUES (v_cluster, p_source, p_attempt, p_order);
    RETURN QUERY SELECT v_cluster, 0, p_attempt;
END $$;

-- Makes sure that a cluster is filled by an attempt, all of whose steps are here, and takes the next
-- number for this step: from p_number, or the one behind it where p_is_open says that nobody knows
-- whether the step before was made.
CREATE FUNCTION reports_server.step_move_v1(p_cluster int, p_number bigint, p_is_open boolean)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_number bigint;
BEGIN
    UPDATE reports_server.moves SET attempt = attempt + 1
    WHERE cluster = p_cluster AND opened_at IS NULL
        AND attempt BETWEEN p_number AND p_number + p_is_open::int
    RETURNING attempt INTO v_number;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'cluster % is not filled by attempt % any more, or has lost a part',
            p_cluster, p_number USING ERRCODE = 'RS002';
    END IF;
    RETURN v_number;
END $$;

-- Opens a cluster that was filled up to p_number. From now on it is one like all others. Gives 0 where
-- it is open, also since earlier; 1 where it is not the one that was filled; 2 where it is, and lacks a
-- part. p_is_ordered says that later attempts of the source have higher numbers.
CREATE FUNCTION reports_server.open_move_v2(
    p_cluster int, p_source text, p_number bigint, p_is_ordered boolean)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_move reports_server.moves;
BEGIN
    PERFORM FROM reports_server.clusters WHERE cluster = p_cluster FOR UPDATE;
    SELECT * INTO v_move FROM reports_server.moves WHERE cluster = p_cluster FOR UPDATE;
    IF NOT FOUND OR v_move.source <> p_source
        OR (v_move.opened_at IS NOT NULL AND v_move.attempt <> p_number)
    THEN
        RETURN 1;
    END IF;
    IF v_move.opened_at IS NOT NULL THEN
        RETURN 0;
    END IF;
    IF v_move.attempt < p_number
        AND (p_is_ordered OR v_move.attempt > p_number - 4294967296) THEN
        RETURN 2;
    END IF;
    IF v_move.attempt <> p_number THEN
        RETURN 1;
    END IF;
    UPDATE reports_server.commits SET cluster = p_cluster WHERE cluster = -p_cluster;
    UPDATE reports_server.moves SET opened_at = now() WHERE cluster = p_cluster;
    -- It may have been here once: the way from here to where it was is not needed any more.
    DELETE FROM reports_server.departures WHERE cluster = p_cluster;
    RETURN 0;
END $$;

-- Forgets a cluster that was being filled and is empty again. One that was here once stays known as
-- moved away: servers that come here have to find the way.
CREATE FUNCTION reports_server.abandon_move_v2(p_cluster int, p_attempt bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM reports_server.fence_move_v1(p_cluster, p_attempt);
    IF EXISTS (SELECT FROM reports_server.departures WHERE cluster = p_cluster) THEN
        DELETE FROM reports_server.moves WHERE cluster = p_cluster;
    ELSE
        PERFORM reports_server.abandon_move_v1(p_cluster, p_attempt);
    END IF;
END $$;
