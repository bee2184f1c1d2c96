-- The version of our tables, and whether their OIDs belong to another database: after a restore or in a copy of the
-- database. A data-only restore adds a second row to `meta`.
select
    pg_catalog.max(m.schema_version) as schema_version,
    coalesce(
        pg_catalog.bool_or((pg_catalog.to_jsonb(m) operator(pg_catalog.->>) 'home') is distinct from here.home)
        or pg_catalog.count(*) > 1,
        false
    ) as foreign_home,
    pg_catalog.max(pg_catalog.to_jsonb(m) operator(pg_catalog.->>) 'schema_name') as schema_name,
    pg_catalog.max(here.home) as home
from {schema}.meta m
cross join (
    select pg_catalog.concat_ws(
        ' ',
        (select s.system_identifier from pg_catalog.pg_control_system() s),
        (select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database()),
        (select c.oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
         where n.nspname = {schema_literal} and c.relname = 'meta')
    ) as home
) as here
