-- Everything in a database that a dump has to bring over, a line each. Text forms of values do not
-- depend on the server's settings, and names are whole.
SET search_path = pg_catalog;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
SET IntervalStyle = 'postgres';
SET extra_float_digits = 1;
SET bytea_output = 'hex';

SELECT :'database', 'relation', c.relkind, n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' AND c.relkind <> 'c';

SELECT :'database', 'function', p.oid::regprocedure, md5(p.prosrc)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname <> 'information_schema' AND n.nspname !~ '^pg_';

SELECT format('SELECT %L, ''sequence'', %L, last_value, is_called FROM %I.%I', :'database',
    format('%I.%I', n.nspname, c.relname), n.nspname, c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' AND c.relkind = 'S'
\gexec

-- The order of rows does not matter: the sum of 64 bits of each row's hash.
SELECT format('SELECT %L, ''row'', %L, count(*), sum((''x'' || encode(substring(sha256(convert_to('
    'row_of_table::text, getdatabaseencoding())) FOR 8), ''hex''))::bit(64)::bigint::numeric) '
    'FROM ONLY %I.%I row_of_table', :'database', format('%I.%I', n.nspname, c.relname), n.nspname,
    c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' AND c.relkind = 'r'
\gexec
