-- Roles that may write our tables or make objects in our schema, and that this session does not trust, if it has more
-- rights than tables need. $1 is the schema, $2 the roles that the caller trusts, $3 our tables. A grant to everybody has
-- the grantee 0; for the caller that is the role "public".
with recursive
{roles}granted (oid) as (
    select entry.grantee
    from pg_catalog.pg_namespace n
    join pg_catalog.pg_class c on c.relnamespace operator(pg_catalog.=) n.oid
    cross join lateral pg_catalog.aclexplode(c.relacl) as entry
    where n.nspname operator(pg_catalog.=) $1::pg_catalog.text::pg_catalog.name
      and c.relname::pg_catalog.text operator(pg_catalog.=) any ($3::pg_catalog.text[])
      and entry.privilege_type in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER')
    union
    select entry.grantee
    from pg_catalog.pg_namespace n
    join pg_catalog.pg_class c on c.relnamespace operator(pg_catalog.=) n.oid
    join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) c.oid
    cross join lateral pg_catalog.aclexplode(a.attacl) as entry
    where n.nspname operator(pg_catalog.=) $1::pg_catalog.text::pg_catalog.name
      and c.relname::pg_catalog.text operator(pg_catalog.=) any ($3::pg_catalog.text[])
      and entry.privilege_type in ('INSERT', 'UPDATE')
    union
    select entry.grantee
    from pg_catalog.pg_namespace n
    cross join lateral pg_catalog.aclexplode(n.nspacl) as entry
    where n.nspname operator(pg_catalog.=) $1::pg_catalog.text::pg_catalog.name
      and entry.privilege_type operator(pg_catalog.=) 'CREATE'::pg_catalog.text
    union
    select m.member
    from pg_catalog.pg_auth_members m
    join pg_catalog.pg_roles r on r.oid operator(pg_catalog.=) m.roleid
    where r.rolname operator(pg_catalog.=) 'pg_write_all_data'::pg_catalog.name
)
select case
           when granted.oid operator(pg_catalog.=) 0::pg_catalog.oid then 'public'
           else pg_catalog.pg_get_userbyid(role.actual)::pg_catalog.text
       end as writer,
       current_user::pg_catalog.text as role
from granted
left join role on role.oid operator(pg_catalog.=) granted.oid
where not coalesce(role.is_trusted, 'public'::pg_catalog.text operator(pg_catalog.=) any ($2::pg_catalog.text[]))
  and exists (
{powers})
order by 1
