-- The collection of a name: by the table that has the name now, else (it was dropped by hand) by
-- the name last recorded.
select
    k.table_oid,
    coalesce(n.nspname, k.schema_name)::text as schema_name,
    coalesce(t.relname, k.table_name)::text as table_name,
    k.key::text as key,
    k.adopted,
    t.oid is not null as present
from {schema}.collection k
left join pg_class t on t.oid = k.table_oid
left join pg_namespace n on n.oid = t.relnamespace
where coalesce(n.nspname, k.schema_name) = $1 and coalesce(t.relname, k.table_name) = $2
order by t.oid is null, k.created_at desc
limit 1
