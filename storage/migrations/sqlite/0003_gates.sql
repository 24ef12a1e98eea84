-- The gate of a resource: the newest fencing token; whether etcd has everything, so that the way
-- leads to the CRD only; the version that lists and bookmarks carry since the gate is not open any
-- more; since when it is held (milliseconds since the epoch), and for how long it was the last time
-- (milliseconds).
ALTER TABLE resources ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE resources ADD COLUMN released INTEGER NOT NULL DEFAULT 0;
ALTER TABLE resources ADD COLUMN frozen_rv INTEGER;
ALTER TABLE resources ADD COLUMN held_since INTEGER;
ALTER TABLE resources ADD COLUMN last_hold INTEGER;
