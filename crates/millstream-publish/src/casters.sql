-- The functions with which a model casts.
select p.oid::pg_catalog.regprocedure::text
from pg_catalog.pg_proc p
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where n.nspname = $1
  and p.prokind = 'f'
  and pg_catalog.pg_get_userbyid(p.proowner) = current_user
  and p.proname::text ~ $2::text
