-- The owner of a change record, if this session is a superuser's and the owner is none. $2 are roles that the caller trusts.
select o.rolname::pg_catalog.text
from pg_catalog.pg_class c
join pg_catalog.pg_roles o on o.oid operator(pg_catalog.=) c.relowner
where c.oid operator(pg_catalog.=) pg_catalog.to_regclass($1)::pg_catalog.oid
  and not o.rolsuper
  and o.rolname::pg_catalog.text operator(pg_catalog.<>) all ($2::pg_catalog.text[])
  and exists (select from pg_catalog.pg_roles r where r.rolname in (session_user, current_user) and r.rolsuper)
