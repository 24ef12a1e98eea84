-- The first start: the role of the servers owns the database and nothing else. It has no password;
-- pg_hba.conf lets it in with a certificate of the operator's CA.
CREATE ROLE reports_server LOGIN;
ALTER DATABASE reports OWNER TO reports_server;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
-- The role of those who read (docs/sql.md). The servers may not make roles; they give it its rights.
CREATE ROLE reports_reader NOLOGIN;
ALTER ROLE reports_reader SET default_transaction_read_only = on;
ALTER ROLE reports_reader SET statement_timeout = '60s';
ALTER ROLE reports_reader SET idle_in_transaction_session_timeout = '60s';
