-- Objects, their history and what is known of each resource.
-- Bodies are JSON text without metadata.resourceVersion, which is the column rv.

-- One row: where the sequence of commits has arrived. Every transaction that writes updates it.
CREATE TABLE position (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    -- newest changes.seq
    seq     INTEGER NOT NULL,
    -- newest resourceVersion given to a write, or the floor it was raised to
    counter INTEGER NOT NULL,
    -- bytes of the bodies in changes
    log_bytes INTEGER NOT NULL
);
INSERT INTO position (id, seq, counter, log_bytes) VALUES (1, 0, 1, 0);

CREATE TABLE resources (
    -- A reset gives a resource a new id; the rows of the old one are dropped little by little.
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    api_group       TEXT    NOT NULL,
    resource        TEXT    NOT NULL,
    kind            TEXT    NOT NULL,
    namespaced      INTEGER NOT NULL,
    uid             TEXT    NOT NULL,
    -- seconds since the epoch
    created_at      INTEGER NOT NULL,
    -- Closed, Held or Open
    gate            TEXT    NOT NULL DEFAULT 'Closed',
    settled         INTEGER NOT NULL DEFAULT 0,
    -- user who set the gate
    holder          TEXT,
    -- the counter when the gate was first opened
    opened_rv       INTEGER,
    -- oldest version from which a watch can resume
    horizon         INTEGER,
    -- newest etcd version of an imported event or bookmark; 0 for none
    mirrored        INTEGER NOT NULL DEFAULT 0,
    -- newest etcd version of any imported item; 0 for none
    newest_imported INTEGER NOT NULL DEFAULT 0,
    -- newest version of an imported or dropped change; newer ones are in changes
    newest_logged   INTEGER NOT NULL DEFAULT 0,
    -- number of rows in imported
    imported        INTEGER NOT NULL DEFAULT 0,
    -- the newest fencing token of the gate
    fence           INTEGER NOT NULL DEFAULT 0,
    -- whether etcd has everything, so that the way leads to the CRD only
    released        INTEGER NOT NULL DEFAULT 0,
    -- the version that lists and bookmarks carry since the gate is not open any more
    frozen_rv       INTEGER,
    -- since when the gate is held, and for how long it was the last time, in milliseconds
    held_since      INTEGER,
    last_hold       INTEGER,
    UNIQUE (api_group, resource)
);

-- Ids that a reset has left behind.
CREATE TABLE dropped_resources (
    id INTEGER PRIMARY KEY
);

-- The objects as they are now. With a rowid: bodies of 10 kB in the leaves of a WITHOUT ROWID
-- table would leave room for few keys a page.
CREATE TABLE objects (
    resource_id INTEGER NOT NULL,
    namespace   TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    uid         TEXT    NOT NULL,
    rv          INTEGER NOT NULL,
    -- 1 while no write of ours has touched the object since it was imported
    as_imported INTEGER NOT NULL,
    -- JSON object
    labels      TEXT    NOT NULL,
    body        TEXT    NOT NULL
);
CREATE UNIQUE INDEX objects_key ON objects (resource_id, namespace, name);

-- What has changed, in order of commit; older rows are dropped, see resources.horizon.
CREATE TABLE changes (
    seq          INTEGER PRIMARY KEY,
    resource_id  INTEGER NOT NULL,
    -- resourceVersion of the change, and of the object after it
    rv           INTEGER NOT NULL,
    -- ADDED, MODIFIED or DELETED
    type         TEXT    NOT NULL,
    -- 0: an event that changes the state. 1: an imported event that is older than the state.
    -- 2: state from a listing, which is no event; its body is in objects.
    effect       INTEGER NOT NULL,
    namespace    TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    as_imported  INTEGER NOT NULL,
    -- version of the state before: NULL where there was none, 0 where it is not known
    prev_rv      INTEGER,
    -- labels of the state before, as JSON object; NULL where they are not known either
    prev_labels  TEXT,
    -- milliseconds since the epoch
    committed_at INTEGER NOT NULL,
    -- the object after the change, for a deletion its last state
    body         TEXT
);
CREATE INDEX changes_event ON changes (resource_id, rv) WHERE effect <> 2;

-- Copies of etcd that were imported and are not pruned yet, as they were there.
CREATE TABLE imported (
    resource_id INTEGER NOT NULL,
    namespace   TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    uid         TEXT    NOT NULL,
    rv          INTEGER NOT NULL,
    PRIMARY KEY (resource_id, namespace, name)
) WITHOUT ROWID;

-- The last imported event of each key while a resource is mirrored: what a listing that was begun
-- earlier must not undo.
CREATE TABLE mirror_events (
    resource_id INTEGER NOT NULL,
    namespace   TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    rv          INTEGER NOT NULL,
    deleted     INTEGER NOT NULL,
    -- JSON object
    labels      TEXT    NOT NULL,
    -- milliseconds since the epoch
    imported_at INTEGER NOT NULL,
    PRIMARY KEY (resource_id, namespace, name)
) WITHOUT ROWID;

-- The definition (schema, names, columns) last in force of each API group.
CREATE TABLE definitions (
    api_group TEXT PRIMARY KEY,
    body      TEXT NOT NULL
) WITHOUT ROWID;

-- Where the reports are moved to, or were; no row before the first attempt.
CREATE TABLE moves (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    -- tells this database from every other one that is moved
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
