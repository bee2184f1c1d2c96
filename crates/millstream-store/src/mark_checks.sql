-- What the table c checks of each document that arrives, and of each row: checks and generated columns.
(
    select pg_catalog.string_agg(judging.what, ', ' order by judging.what)
    from (
        select pg_catalog.concat_ws(
            ' ', k.oid, pg_catalog.to_jsonb(k) operator(pg_catalog.->>) 'conenforced', k.conbin
        )
        from pg_catalog.pg_constraint k
        where k.conrelid = c.oid
          and k.contype = 'c'
        union all
        select pg_catalog.concat_ws(' ', a.attname, a.atttypid, a.atttypmod, a.attnotnull, d.adbin)
        from pg_catalog.pg_attribute a
        join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where a.attrelid = c.oid
          and a.attgenerated <> ''
          and not a.attisdropped
    ) as judging (what)
)
