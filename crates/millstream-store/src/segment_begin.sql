-- The number of a table's next segment, and the other roles that may read the table.
select
    pg_catalog.nextval(
        pg_catalog.format('%I.segment_number', {schema_literal})::pg_catalog.regclass
    ) as segment_id,
    (
        select pg_catalog.string_agg(
            distinct case when a.grantee = 0::oid then 'public'
                     else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) end,
            ', '
        )
        from pg_catalog.pg_class c
        cross join pg_catalog.aclexplode(
            coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))
        ) a
        where c.oid = $1
          and not c.relrowsecurity
          and a.privilege_type = 'SELECT'
          and pg_catalog.pg_get_userbyid(a.grantee) <> current_user
    ) as readers
