-- Indexes that no query uses because their build failed; not those of a table on which an index is being built now.
-- $1: at most so many.
select
    format('%I.%I', n.nspname, c.relname) as name,
    i.indrelid::regclass::text as table_name,
    pg_get_indexdef(i.indexrelid) as definition,
    c.relpages::bigint * current_setting('block_size')::bigint as bytes,
    i.indisready as maintained,
    c.relkind = 'I' as partitioned,
    c.relname ~ '_cc(new|old)[0-9]*$' as left_over
from
    pg_index as i
    join pg_class as c on c.oid = i.indexrelid
    join pg_namespace as n on n.oid = c.relnamespace
where
    not (i.indisvalid and i.indisready and i.indislive)
    and c.relpersistence <> 't'
    and not exists (
        -- Without pg_monitor, the table that another role builds on is hidden.
        select from pg_stat_progress_create_index as p
        where p.datname = current_database() and (p.relid = i.indrelid or p.relid is null)
    )
order by
    bytes desc, name
limit $1
