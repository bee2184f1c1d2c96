-- Whether a generation exists, whether it is attached, so that readers lock it, and whether it holds rows.
select
    c.oid is not null,
    coalesce(c.relispartition, false),
    coalesce(pg_catalog.pg_relation_size(c.oid) > 0, false)
from (select pg_catalog.to_regclass($1)::pg_catalog.oid as oid) as named
left join pg_catalog.pg_class c on c.oid = named.oid
