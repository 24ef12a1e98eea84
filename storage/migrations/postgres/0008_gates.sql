-- The gate of a resource: the newest fencing token; whether etcd has everything, so that the way
-- leads to the CRD only; the version that lists and bookmarks carry since the gate is not open any
-- more; since when it is held (milliseconds since the epoch), and for how long it was the last time
-- (milliseconds).
ALTER TABLE reports_server.resources ADD COLUMN fence bigint NOT NULL DEFAULT 0;
ALTER TABLE reports_server.resources ADD COLUMN released boolean NOT NULL DEFAULT false;
ALTER TABLE reports_server.resources ADD COLUMN frozen_rv bigint;
ALTER TABLE reports_server.resources ADD COLUMN held_since bigint;
ALTER TABLE reports_server.resources ADD COLUMN last_hold bigint;
