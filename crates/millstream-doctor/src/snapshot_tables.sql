-- The largest tables of this database. $1: at most so many.
with largest as materialized (
    -- Only these get names.
    select n.nspname, c.oid, c.relname, c.relpages, c.reltuples
    from
        pg_class as c
        join pg_namespace as n
            on n.oid = c.relnamespace and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
    where
        c.relkind in ('r', 'm')
        and c.relpersistence <> 't'
    order by
        c.relpages desc, c.oid
    limit $1
)
select
    current_database()::text as database,
    format('%I.%I', nspname, relname) as name,
    relpages::bigint * current_setting('block_size')::bigint as bytes,
    greatest(reltuples::bigint, 0) as rows
from
    largest
order by
    relpages desc, oid
