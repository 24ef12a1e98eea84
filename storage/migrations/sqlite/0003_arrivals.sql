-- The move by which this database was filled from a PostgreSQL; no row where it was not.
CREATE TABLE arrivals (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    -- the history of the cluster there: tells that database from every other one
    source   TEXT    NOT NULL,
    -- the attempt, as it is noted there, and the order that it carries out
    attempt  INTEGER NOT NULL,
    order_id TEXT    NOT NULL,
    -- the newest commit there that this database goes on from; NULL until all is copied
    seq      INTEGER,
    batch    INTEGER,
    counter  INTEGER
);
