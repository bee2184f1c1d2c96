-- Of the loads that start over ($1), abandons those that a later load of some of their sources followed. Resuming one
-- would bring back what the later load replaced.
update {schema}.load l
set resumable = false
where load_id = any ($1::bigint[])
  and exists (
      select
      from {schema}.load n
      where n.table_oid = l.table_oid
        and n.load_id > l.load_id
        and n.sources operator(pg_catalog.&&) l.sources
  )
