-- The definition of the one index of the copy, and the name of the table that it stands for. $1: the table.
select
    pg_get_indexdef(i.indexrelid) as definition,
    format('%I.%I', n.nspname, t.relname) as table_name
from
    pg_index as i
    cross join pg_class as t
    join pg_namespace as n on n.oid = t.relnamespace
where
    i.indrelid = 'pg_temp.millstream_copy'::regclass
    and t.oid = $1::text::regclass
