-- The owner of the relation $1, if this session does not trust that role and has more rights than tables need. $2 are roles
-- that the caller trusts.
with recursive
{roles}relation as (
    select relowner as owner
    from pg_catalog.pg_class
    where oid operator(pg_catalog.=) $1
)
select pg_catalog.pg_get_userbyid(relation.owner)::pg_catalog.text as owner
from relation
join role on role.oid operator(pg_catalog.=) relation.owner
where not role.is_trusted
  and exists (
{powers})
