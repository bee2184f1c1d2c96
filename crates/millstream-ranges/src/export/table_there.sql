-- A relation by its name: whether Millstream made it, whether its owner is this role or one of $5 (anybody can write such a
-- comment), whether it has row security, and the statements that give its
-- owner and its rights to the table that replaces it.
select
    c.relkind = 'r' and pg_catalog.starts_with(
        coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), ''), $3
    ) as ours,
    c.relowner = any ($5::oid[]) or pg_catalog.pg_get_userbyid(c.relowner) = current_user as trusted,
    pg_catalog.pg_get_userbyid(c.relowner)::text as owner,
    c.relrowsecurity as secured,
    case when pg_catalog.pg_get_userbyid(c.relowner) = current_user then ''
         else pg_catalog.format('alter table %s owner to %I; ', $4::text, pg_catalog.pg_get_userbyid(c.relowner))
    end || coalesce((
        select pg_catalog.string_agg(
            pg_catalog.format(
                'grant %s on %s to %s%s',
                pg_catalog.lower(a.privilege_type),
                $4::text,
                case when a.grantee = 0::oid then 'public'
                     else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) end,
                case when a.is_grantable then ' with grant option' else '' end
            ),
            '; '
        )
        from pg_catalog.aclexplode(c.relacl) a
        where a.grantee <> c.relowner
    ), '') as rights
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1
  and c.relname = $2
