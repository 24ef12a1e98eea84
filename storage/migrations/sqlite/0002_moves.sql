-- Where the reports are moved to, or were; no row before the first attempt.
CREATE TABLE moves (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    -- tells this database from every other one that is moved, for good
    source   TEXT    NOT NULL,
    -- the newest attempt, a random number
    attempt  INTEGER NOT NULL,
    -- the cluster's identity in the other database, and what people call it
    identity TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    -- position.seq at which the other database took over; NULL until it did. From then on nothing
    -- may be written here any more.
    seq      INTEGER,
    -- milliseconds since the epoch
    moved_at INTEGER
);
