-- Records the current names of renamed tables and views. A dump contains these records, and a restore binds by name.
with renamed as (
    update {schema}.collection k
    set schema_name = n.nspname, table_name = c.relname
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where c.oid = k.table_oid
      and (k.schema_name, k.table_name) is distinct from (n.nspname::text, c.relname::text)
)
update {schema}.model m
set schema_name = n.nspname, model_name = c.relname
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid = m.view_oid
  and (m.schema_name, m.model_name) is distinct from (n.nspname::text, c.relname::text)
  and not exists (
      select
      from {schema}.model o
      where o.schema_name = n.nspname
        and o.model_name = c.relname
  )
