-- The first start: the role of the servers owns the database and nothing else. It has no password;
-- pg_hba.conf lets it in with a certificate of the operator's CA.
CREATE ROLE reports_server LOGIN;
ALTER DATABASE reports OWNER TO reports_server;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
