-- Locks the stored rows of a batch with tombstones, in key order, before anything is written. Deletes and upserts are
-- separate statements, which together visit keys out of order.
select pg_catalog.count(*)
from (select {key} from {stage} where {run} order by {key}) as staged
cross join lateral (
    select
    from {table} as stored
    where {join}
    for update
) as locked
