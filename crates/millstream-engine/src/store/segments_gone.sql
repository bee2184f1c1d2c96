-- Segments of tables that are gone, as far as this role may drop them.
select s.segment_id, s.table_oid, s.run_order, s.documents, s.bytes, s.compaction, s.bounds
from {schema}.segment s
where not exists (select from pg_catalog.pg_class where oid = s.table_oid)
  and coalesce((
      select pg_catalog.pg_has_role(c.relowner, 'usage')
      from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      where n.nspname = $1
        and c.relname = 'segment_' || s.segment_id
  ), true)
order by s.table_oid, s.segment_id
