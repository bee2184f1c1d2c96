-- The newest unfinished load that read one of these sources into a dropped table of the same name. None if a later load
-- into the present table has read one of them.
select l.load_id
from {schema}.collection k
join {schema}.load l on l.table_oid = k.table_oid
where not exists (select from pg_catalog.pg_class where oid = k.table_oid)
  and l.collection = $1
  and l.sources operator(pg_catalog.&&) $2::text[]
  and l.resumable
  and l.state <> 'finished'
  and not exists (
      select
      from {schema}.load newer
      where newer.table_oid = $3
        and newer.sources operator(pg_catalog.&&) $2::text[]
        and newer.load_id > l.load_id
  )
order by l.load_id desc
limit 1
