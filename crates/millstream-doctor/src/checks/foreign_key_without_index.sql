-- Foreign keys of large tables whose columns begin no index, if rows of the other table were deleted or updated. $1: smaller
-- tables do not count, in rows. $2: at most so many.
select
    format('%I.%I.%I', n.nspname, c.relname, k.conname) as name,
    format('%I.%I', n.nspname, c.relname) as table_name,
    n.nspname::text as schema,
    c.relname::text as table,
    c.relkind = 'p' as is_partitioned,
    k.confrelid::regclass::text as other,
    (select string_agg(quote_ident(a.attname), ', ' order by u.place)
        from unnest(k.conkey) with ordinality as u (attnum, place)
        join pg_attribute as a on a.attrelid = k.conrelid and a.attnum = u.attnum) as columns,
    pg_get_constraintdef(k.oid) as definition,
    greatest(c.reltuples, 0)::bigint as rows,
    extract(epoch from now() - greatest(
        pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)
    ))::float8 as analyze_age,
    s.n_tup_del + s.n_tup_upd as changes
from
    pg_constraint as k
    join pg_class as c on c.oid = k.conrelid
    join pg_namespace as n on n.oid = c.relnamespace
    join pg_stat_user_tables as s on s.relid = k.confrelid
where
    k.contype = 'f'
    and k.conparentid = 0
    and c.reltuples >= $1::float8
    and s.n_tup_del + s.n_tup_upd > 0
    and not exists (
        select
        from
            pg_index as i
        where
            i.indrelid = k.conrelid
            and i.indisvalid
            and i.indpred is null
            -- The first columns of the index, in any order.
            and (i.indkey::int2[])[0:cardinality(k.conkey) - 1] @> k.conkey
    )
order by
    c.reltuples desc, name
limit $2
