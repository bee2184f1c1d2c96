-- The first key of an index, and whether the index keeps the values of that key unique. $1, $2: its schema and name.
select
    pg_catalog.pg_get_indexdef(i.indexrelid, 1, true) as key,
    i.indisunique and i.indnkeyatts = 1 and i.indpred is null as is_unique
from
    pg_catalog.pg_index as i
    join pg_catalog.pg_class as c on c.oid = i.indexrelid
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where
    n.nspname = $1
    and c.relname = $2
