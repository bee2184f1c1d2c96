-- Whether a table is unlogged, whether nobody freezes it at this moment, and whether it refuses writes. $2 is the trigger
-- that refuses them.
select c.relpersistence = 'u' as is_unlogged,
       {lock} as free,
       exists (
           select
           from pg_catalog.pg_trigger t
           where t.tgrelid = c.oid
             and t.tgname = $2
             and t.tgenabled <> 'D'
       ) as refuses_writes
from pg_catalog.pg_class c
where c.oid = $1
