-- How many of these keys are those of rows that were written before the load began.
select pg_catalog.count(*)
from rows from ({arrays}) as asked ({key})
cross join (
    select pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint + 16777216 as millstream_bound
    offset 0
) as seen
cross join lateral (
    select
    from {table} as stored
    where {join}
      and {before}
    offset 0
) as stored
