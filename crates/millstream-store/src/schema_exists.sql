-- Whether our tables exist.
select exists (
    select
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1
      and c.relname = 'meta'
)
