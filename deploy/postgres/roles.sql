-- The roles and the schema of one installation, for whoever may make roles and owns the database; no superuser is needed, and no extension. Run it
-- once in the installation's database, then give both roles a password (psql: \password hanjul_migrate) or what else your pg_hba.conf asks for.
-- A second installation takes other names for all three: hanjul_migrate, hanjul_run and the schema hanjul.

-- Owns the schema and all in it; `order-consumer migrate` runs as it, and nothing else.
CREATE ROLE hanjul_migrate LOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION;
-- The services and all other subcommands run as it. It owns nothing, makes no table, and no partition but by the functions that migration 7 made.
CREATE ROLE hanjul_run LOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION;

-- To act for it below; taken back at the end.
GRANT hanjul_migrate TO CURRENT_USER;

CREATE SCHEMA hanjul AUTHORIZATION hanjul_migrate;
GRANT USAGE ON SCHEMA hanjul TO hanjul_run;

-- What is made by migrations and by those functions later.
ALTER DEFAULT PRIVILEGES FOR ROLE hanjul_migrate IN SCHEMA hanjul GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO hanjul_run;
ALTER DEFAULT PRIVILEGES FOR ROLE hanjul_migrate IN SCHEMA hanjul GRANT USAGE ON SEQUENCES TO hanjul_run;
ALTER DEFAULT PRIVILEGES FOR ROLE hanjul_migrate IN SCHEMA hanjul GRANT EXECUTE ON FUNCTIONS TO hanjul_run;

-- What is there already, where the schema is older than its roles. For tables that another role made: REASSIGN OWNED BY … TO hanjul_migrate first.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA hanjul TO hanjul_run;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA hanjul TO hanjul_run;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA hanjul TO hanjul_run;

REVOKE hanjul_migrate FROM CURRENT_USER;
