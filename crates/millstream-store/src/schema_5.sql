-- Fifth version of the tables: they record which database they belong to.

-- Our records name tables by OID, and a restore gives tables other OIDs. `home` names the server, the database and the
-- table `meta` to which the OIDs belong; it is null until they are checked for the first time. `schema_name` is the
-- schema's own name, which our functions contain.
alter table {schema}.meta add column home text;
alter table {schema}.meta add column schema_name text not null default {schema_literal};
alter table {schema}.meta alter column schema_name drop default;
