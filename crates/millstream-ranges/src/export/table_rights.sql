-- The statements that take from a new table ($2) the rights that default privileges gave it, and those that give it, under the
-- name of the table that it replaces ($1), the rights on that one's columns, as far as it has them.
select
    coalesce((
        select pg_catalog.string_agg(
            pg_catalog.format(
                'revoke all on %s from %s; ',
                $2::text,
                case when a.grantee = 0::oid then 'public'
                     else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) end
            ),
            ''
        )
        from pg_catalog.pg_class c
        cross join lateral pg_catalog.aclexplode(c.relacl) a
        where c.oid = $2::text::pg_catalog.regclass::oid
          and a.grantee <> c.relowner
    ), ''),
    coalesce((
        select pg_catalog.string_agg(
            pg_catalog.format(
                '; grant %s (%I) on %s to %s%s',
                pg_catalog.lower(a.privilege_type),
                old.attname,
                $1::text,
                case when a.grantee = 0::oid then 'public'
                     else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) end,
                case when a.is_grantable then ' with grant option' else '' end
            ),
            ''
        )
        from pg_catalog.pg_attribute old
        join pg_catalog.pg_attribute new on new.attname = old.attname
        cross join lateral pg_catalog.aclexplode(old.attacl) a
        where old.attrelid = $1::text::pg_catalog.regclass::oid
          and new.attrelid = $2::text::pg_catalog.regclass::oid
          and not old.attisdropped
          and not new.attisdropped
    ), '')
