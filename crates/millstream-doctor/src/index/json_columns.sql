-- The columns of a table that hold JSON. $1: its schema. $2: its name.
select
    a.attname::text as name,
    pg_catalog.quote_ident(a.attname) as word,
    pg_catalog.format('%I.%I', n.nspname, c.relname) as table,
    c.reltuples::pg_catalog.float8 as rows
from
    pg_catalog.pg_class as c
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    join pg_catalog.pg_attribute as a on a.attrelid = c.oid
where
    n.nspname = $1::text
    and c.relname = $2::text
    and a.attnum > 0
    and a.atttypid in ('pg_catalog.json'::pg_catalog.regtype, 'pg_catalog.jsonb'::pg_catalog.regtype)
order by
    a.attnum
