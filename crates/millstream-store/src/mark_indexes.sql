-- What the table c may refuse a row for besides: foreign keys and indexes. An index that is built anew counts as the same.
(
    select pg_catalog.string_agg(refusing.what, ', ' order by refusing.what)
    from (
        select pg_catalog.concat_ws(' ', 'key', k.oid)
        from pg_catalog.pg_constraint k
        where k.conrelid = c.oid
          and k.contype = 'f'
        union all
        select distinct pg_catalog.concat_ws(
            ' ', i.indisunique, i.indisexclusion, i.indkey, i.indclass, i.indexprs, i.indpred
        )
        from pg_catalog.pg_index i
        where i.indrelid = c.oid
          and i.indisready
    ) as refusing (what)
)
