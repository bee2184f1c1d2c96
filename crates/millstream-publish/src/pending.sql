-- The changes recorded after a snapshot. Everything may have changed if the record lacks its first row: a crash has
-- emptied it together with an unlogged collection, or a refresh has marked it as unreliable.
select
    coalesce(pg_catalog.sum(change.keys) filter (where later), 0)::bigint as keys,
    coalesce(pg_catalog.bool_or(change.everything) filter (where later), false)
    or not coalesce(pg_catalog.bool_or(change.keys = 0 and not change.everything), false) as everything,
    extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.max(change.changed_at) filter (where later))::float8 as newest_age
from (
    select
        keys,
        everything,
        changed_at,
        (keys > 0 or everything) and not pg_catalog.pg_visible_in_snapshot(xid, ($1::text)::pg_catalog.pg_snapshot) as later
    from {record}
) as change
