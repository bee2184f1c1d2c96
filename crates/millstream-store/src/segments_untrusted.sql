-- A role that owns a segment of the table $1 and neither owns the table nor is trusted by this session, which has more
-- rights than tables need. Planning a query of a segment is enough to run what its owner may add to it at any moment.
with recursive
{roles}owner as (
    select c.relowner as oid
    from {schema}.segment s
    join pg_catalog.pg_class ours on ours.oid operator(pg_catalog.=) s.tableoid
    join pg_catalog.pg_class c
      on c.relnamespace operator(pg_catalog.=) ours.relnamespace
     and c.relname operator(pg_catalog.=) pg_catalog.concat('segment_', s.segment_id)::pg_catalog.name
    where s.table_oid operator(pg_catalog.=) $1
    except
    select relowner
    from pg_catalog.pg_class
    where oid operator(pg_catalog.=) $1
)
select pg_catalog.pg_get_userbyid(owner.oid)::pg_catalog.text as owner,
       current_user::pg_catalog.text as role
from owner
join role on role.oid operator(pg_catalog.=) owner.oid
where not role.is_trusted
  and exists (
{powers})
order by owner
limit 1
