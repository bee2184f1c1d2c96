-- Forgets the changes that every model of the collection shows.
delete from {record} as change
where (change.keys > 0 or change.everything)
  and not exists (
      select
      from {schema}.model m
      where m.table_oid = $1
        and (m.shows is null or not pg_catalog.pg_visible_in_snapshot(change.xid, m.shows))
  )
