-- A role that may change what SQL calls and that this session does not trust, if it has more rights than tables need: who
-- may create in one of the schemas $1, and the owners $3. $2 are roles that the caller trusts. A grant to everybody has the
-- grantee 0; for the caller that is the role "public".
with recursive
{roles}creator (oid) as (
    select entry.grantee
    from pg_catalog.pg_namespace n
    cross join lateral pg_catalog.aclexplode(n.nspacl) as entry
    where n.nspname::pg_catalog.text operator(pg_catalog.=) any ($1::pg_catalog.text[])
      and entry.privilege_type operator(pg_catalog.=) 'CREATE'::pg_catalog.text
    union
    select n.nspowner
    from pg_catalog.pg_namespace n
    where n.nspname::pg_catalog.text operator(pg_catalog.=) any ($1::pg_catalog.text[])
    union
    select owner.oid
    from pg_catalog.unnest($3::pg_catalog.oid[]) as owner (oid)
)
select case
           when creator.oid operator(pg_catalog.=) 0::pg_catalog.oid then 'public'
           else pg_catalog.pg_get_userbyid(role.actual)::pg_catalog.text
       end as creator
from creator
left join role on role.oid operator(pg_catalog.=) creator.oid
where not coalesce(role.is_trusted, 'public'::pg_catalog.text operator(pg_catalog.=) any ($2::pg_catalog.text[]))
  and exists (
{powers})
order by 1
limit 1
