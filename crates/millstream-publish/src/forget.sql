-- Deletes the changes that every model of the collection shows. Models that were never built and are not being built
-- ($2) do not count: their first build reads the whole collection.
delete from {record} as change
where (change.keys > 0 or change.everything)
  and not exists (
      select
      from {schema}.model m
      where m.table_oid = $1
        and (
            not coalesce((m.definition operator(pg_catalog.->>) 'materialized')::boolean, false)
            or (m.definition operator(pg_catalog.->>) 'query') is not null
        )
        and case
                when m.shows is null then m.model_id <> all ($2::integer[])
                else not pg_catalog.pg_visible_in_snapshot(change.xid, m.shows)
            end
  )
