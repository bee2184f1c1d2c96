-- Of loads at their beginning again, those give way that a later load of some of their sources has come after: to go
-- on with one would bring again what that one has brought.
update {schema}.load l
set resumable = false
where load_id = any ($1::bigint[])
  and exists (
      select
      from {schema}.load n
      where n.table_oid = l.table_oid
        and n.load_id > l.load_id
        and n.sources && l.sources
  )
