-- Whether this role may read the list of segments, and whether any collection has segments.
select
    coalesce(pg_catalog.bool_or(
        c.relname = 'segment'
        and pg_catalog.has_schema_privilege(n.oid, 'usage')
        and pg_catalog.has_table_privilege(c.oid, 'select')
    ), false) as listed,
    coalesce(pg_catalog.bool_or(c.relname <> 'segment'), false) as present
from pg_catalog.pg_namespace n
join pg_catalog.pg_class c on c.relnamespace = n.oid
where n.nspname = $1
  and c.relname::text ~ '^segment(_[0-9]+)?$'
