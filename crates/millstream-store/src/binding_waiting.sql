-- Whether a table exists that a waiting record names and that no other record has.
select exists (
    select
    from {schema}.collection k
    join pg_catalog.pg_namespace n on n.nspname = k.schema_name
    join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = k.table_name
    where k.table_oid < 16384::oid
      and {fits}
      and not exists (select from {schema}.collection o where o.table_oid = c.oid)
)
