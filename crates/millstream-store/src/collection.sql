-- A collection under the current name of its table or, if the table was dropped by hand, under the last recorded name.
-- Of several with one name, the one whose table exists comes first, then the newest.
select
    k.table_oid::bigint as table_oid,
    coalesce(n.nspname, k.schema_name)::text as schema,
    coalesce(t.relname, k.table_name)::text as table,
    k.key,
    k.doc,
    k.adopted,
    t.oid is not null as present,
    t.oid is null and pg_catalog.to_regclass(pg_catalog.format('%I.%I', k.schema_name, k.table_name)) is not null
        as replaced,
    {distributed} as distributed
from {schema}.collection k
left join pg_catalog.pg_class t on t.oid = k.table_oid
left join pg_catalog.pg_namespace n on n.oid = t.relnamespace
where {condition}
order by t.oid is null, k.created_at desc
limit 1
