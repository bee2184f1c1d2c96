-- Deletes the rows of these keys that were written before the load began. Returns how many.
with gone as (
    delete from {table} as stored
    using (
        select asked.*, seen.millstream_bound
        from rows from ({arrays}) as asked ({key})
        cross join (
            select pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint + 16777216 as millstream_bound
        ) as seen
        offset 0
    ) as seen
    where {join}
      and {before}
    returning 1
)
select pg_catalog.count(*) from gone
