-- The newest load that read one of these sources into a table of the same name, if it is unfinished and its
-- table is gone.
select load_id
from (
    select load_id, table_oid, state
    from {schema}.load
    where collection = $1
      and sources && $2::text[]
      and resumable
    order by load_id desc
    limit 1
) newest
where state <> 'finished'
  and not exists (select from pg_catalog.pg_class where oid = newest.table_oid)
