-- Whether Citus distributes the table {table}: it then has this trigger, at every node. On a server without Citus, nothing
-- has it.
exists (
    select
    from pg_catalog.pg_trigger g
    join pg_catalog.pg_proc f on f.oid = g.tgfoid
    join pg_catalog.pg_namespace fn on fn.oid = f.pronamespace
    where g.tgrelid = {table}
      and fn.nspname = 'pg_catalog'
      and f.proname = 'citus_truncate_trigger'
)
