-- A type in the expressions of an index that another role made, and that role; nothing if this session has no more rights
-- than tables need. To read a literal of a domain is to run its check. $1: the index's name.
select
    t.oid::regtype::text as type,
    o.rolname::text as owner
from
    pg_depend as d
    join pg_type as t on t.oid = d.refobjid
    join pg_roles as o on o.oid = t.typowner
where
    d.classid = 'pg_class'::regclass
    and d.objid = to_regclass($1)
    and d.refclassid = 'pg_type'::regclass
    and t.typnamespace <> 'pg_catalog'::regnamespace
    and not o.rolsuper
    and o.rolname not in (session_user, current_user)
    and exists (
{powers})
limit 1
