-- Partitions among tables ($1) of the table $2: the OID, the name, whether it has no pages, and whether this role may read it.
select
    c.oid,
    pg_catalog.format('%I.%I', n.nspname, c.relname) as name,
    coalesce(pg_catalog.pg_relation_size(c.oid), 0) = 0 as no_pages,
    pg_catalog.has_table_privilege(c.oid, 'select') and pg_catalog.has_schema_privilege(n.oid, 'usage') as readable
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid = any ($1::oid[])
  and c.oid <> $2
