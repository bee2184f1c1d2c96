-- The definitions of all indexes of a table. $1, $2: its schema and name.
select
    pg_catalog.pg_get_indexdef(i.indexrelid) as definition
from
    pg_catalog.pg_index as i
    join pg_catalog.pg_class as t on t.oid = i.indrelid
    join pg_catalog.pg_namespace as n on n.oid = t.relnamespace
where
    n.nspname = $1
    and t.relname = $2
