-- Whether there are segments to be seen by this role.
select exists (
    select
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1
      and c.relname = 'segment'
      and pg_catalog.has_schema_privilege(n.oid, 'usage')
      and pg_catalog.has_table_privilege(c.oid, 'select')
)
