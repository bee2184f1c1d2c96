-- The tables of this database of which most pages were read, with their indexes.
select
    format('%I.%I', schemaname, relname) as name,
    coalesce(heap_blks_read, 0) + coalesce(idx_blks_read, 0) + coalesce(toast_blks_read, 0)
        + coalesce(tidx_blks_read, 0) as reads
from
    pg_statio_user_tables
where
    heap_blks_read > 0
order by
    reads desc, name
limit 3
