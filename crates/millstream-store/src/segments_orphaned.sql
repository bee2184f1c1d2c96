-- Segments whose table is gone: those that this role may drop, and those of a collection whose name another table has
-- now. That may be the collection's own table, because a restore gives a table another OID. Segments that wait for a
-- restore of their table are left out: their OID is below 16384.
select
    s.segment_id,
    s.table_oid,
    s.run_order,
    s.documents,
    s.bytes,
    s.compaction,
    s.bounds,
    k.schema_name,
    k.table_name
from {schema}.segment s
left join (
    {schema}.collection k
    join pg_catalog.pg_namespace n on n.nspname = k.schema_name
    join pg_catalog.pg_class t on t.relnamespace = n.oid and t.relname = k.table_name and t.relkind in ('r', 'p')
) on k.table_oid = s.table_oid
where not exists (select from pg_catalog.pg_class where oid = s.table_oid)
  and s.table_oid >= 16384::oid
  and (k.table_oid is not null or coalesce((
      select pg_catalog.pg_has_role(c.relowner, 'usage')
      from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      where n.nspname = $1
        and c.relname = 'segment_' || s.segment_id::text
  ), true))
order by s.table_oid, s.segment_id
