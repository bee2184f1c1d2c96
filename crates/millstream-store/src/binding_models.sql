-- Binds models to the tables of their collections and, by name, to their views. `shows` is cleared where it is a
-- snapshot of another server or of another table: the next refresh builds these models anew.
update {schema}.model m
set table_oid = coalesce(bound.target, m.table_oid),
    view_oid = (
        select c.oid
        from pg_catalog.pg_class c
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where n.nspname = m.schema_name
          and c.relname = m.model_name
          and c.relkind in ('v', 'm')
    ),
    shows = case when bound.target = m.table_oid and not $3 then m.shows end
from {schema}.model itself
left join rows from (pg_catalog.unnest($1::oid[]), pg_catalog.unnest($2::oid[])) as bound (recorded, target) on bound.recorded = itself.table_oid
where itself.model_id = m.model_id
  and ($3 or bound.target is not null)
