-- The largest tables of this database. $1: at most so many.
select
    current_database()::text as database,
    format('%I.%I', n.nspname, c.relname) as name,
    c.relpages::bigint * current_setting('block_size')::bigint as bytes,
    greatest(c.reltuples::bigint, 0) as rows
from
    pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
where
    c.relkind in ('r', 'm')
    and c.relpersistence <> 't'
order by
    c.relpages desc, c.oid
limit $1
