-- What decides whether a table can be frozen in place, whether it was, and by whom. $2 is our schema, in which the trigger's
-- function is created, and $3 the trigger.
select pg_catalog.pg_get_userbyid(c.relowner)::text as owner,
       pg_catalog.pg_has_role(c.relowner, 'usage') as owns,
       current_user::text as role,
       pg_catalog.has_schema_privilege($2::text, 'create') as creates,
       exists (select from pg_catalog.pg_inherits where c.oid in (inhrelid, inhparent)) or c.relkind = 'p' as inherits,
       exists (select from pg_catalog.pg_subscription_rel where srrelid = c.oid) as subscribed,
       frozen.oid is not null as has_trigger,
       coalesce(frozen.tgenabled = 'A', false) as refuses_writes,
       pg_catalog.pg_get_userbyid(p.proowner)::text as maker,
       coalesce(pg_catalog.pg_has_role(p.proowner, 'usage'), true) as is_maker
from pg_catalog.pg_class c
left join pg_catalog.pg_trigger frozen on frozen.tgrelid = c.oid and frozen.tgname = $3
left join pg_catalog.pg_proc p on p.oid = frozen.tgfoid
where c.oid = $1
