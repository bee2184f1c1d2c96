-- Unlogged tables with rows. $1: smaller ones do not count, in bytes. $2: at most so many.
select
    format('%I.%I', n.nspname, c.relname) as name,
    c.relpages::bigint * current_setting('block_size')::bigint as bytes
from
    pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
where
    c.relpersistence = 'u'
    and c.relkind = 'r'
    and n.nspname !~ '^pg_toast'
    and c.relpages::float8 * current_setting('block_size')::float8 >= greatest($1::float8, 1)
order by
    bytes desc, name
limit $2
