-- The OID that each record gets. It is the OID of the table with the recorded name and shape; if several records have
-- one name, the newest record gets it. Otherwise the record waits for its table, under an unused OID below 16384, which
-- PostgreSQL gives to no user's table. If $1 is true, the OIDs of all records belong to another database; if not, only
-- waiting records are bound. `interim` is an unused OID for the swap of OIDs.
with recorded as (
    select r.table_oid, k.schema_name, k.table_name, k.created_at, c.oid as found
    from (
        select table_oid from {schema}.collection
        union
        select table_oid from {schema}.load
        union
        select table_oid from {schema}.segment
        union
        select table_oid from {schema}.tombstone
        union
        select table_oid from {schema}.model
    ) as r
    left join {schema}.collection k on k.table_oid = r.table_oid
    left join (
        pg_catalog.pg_class c
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    ) on n.nspname = k.schema_name and c.relname = k.table_name and {fits}
    where $1
       or r.table_oid < 16384::oid
      and not exists (select from {schema}.collection o where o.table_oid = c.oid)
),
ranked as (
    select
        *,
        case
            when pg_catalog.row_number() over (partition by schema_name, table_name order by created_at desc) = 1
                then found
        end as bound
    from recorded
),
free as (
    select number::oid as table_oid, pg_catalog.row_number() over (order by number) as nth
    from pg_catalog.generate_series(1, 16383) as number
    where not exists (select from pg_catalog.pg_class where oid = number::oid)
      and not exists (select from recorded where table_oid = number::oid)
)
select
    r.table_oid,
    r.schema_name,
    r.table_name,
    f.table_oid as interim,
    r.bound is not null as bound,
    coalesce(r.bound, case when r.table_oid < 16384::oid and not $1 then r.table_oid else f.table_oid end) as target
from (select *, pg_catalog.row_number() over (order by table_oid) as nth from ranked) as r
left join free f on f.nth = r.nth
