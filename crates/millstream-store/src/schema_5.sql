-- Fifth version of the tables: they say which database they belong to.

-- Our records name tables by OID, and a restore gives every table another one. `home` is the server, the database and
-- the table `meta` for which the OIDs hold; null until they were first checked. `schema_name` is the schema's own name,
-- which our functions contain.
alter table {schema}.meta add column home text;
alter table {schema}.meta add column schema_name text not null default {schema_literal};
alter table {schema}.meta alter column schema_name drop default;
