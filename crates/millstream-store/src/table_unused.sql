-- Whether a table still has this name, and no load, model or segment refers to it.
select pg_catalog.to_regclass($2)::oid is not distinct from $1
    and not exists (select from {schema}.load where table_oid = $1)
    and not exists (select from {schema}.model where table_oid = $1)
    and not exists (select from {schema}.segment where table_oid = $1)
