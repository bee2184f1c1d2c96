-- Foreign keys of large tables whose columns begin no index, if rows of the other table were deleted, or updated in a way
-- that can change a key. A partitioned table is what its partitions are. $1: fewer rows without an index do not count.
-- $2: at most so many.
with recursive keys as (
    select
        k.oid,
        k.conname,
        k.conrelid,
        k.confrelid,
        array(select attname from pg_attribute where attrelid = k.conrelid and attnum = any (k.conkey)) as names
    from
        pg_constraint as k
        join pg_class as c on c.oid = k.conrelid
    where
        k.contype = 'f'
        and k.conparentid = 0
        and c.relpersistence <> 't'
        -- From PostgreSQL 18 on, a key need not be enforced; then nothing looks for references.
        and coalesce((to_jsonb(k) ->> 'conenforced')::bool, true)
),
tree as (
    select conrelid as root, conrelid as oid from keys
    union
    select confrelid, confrelid from keys
    union all
    select t.root, h.inhrelid
    from
        tree as t
        join pg_inherits as h on h.inhparent = t.oid
        join pg_class as c on c.oid = h.inhrelid and c.relispartition
),
changed as (
    -- An update that keeps the place of a row in every index changes no key.
    select
        root,
        sum(pg_stat_get_tuples_deleted(oid) + pg_stat_get_tuples_updated(oid) - pg_stat_get_tuples_hot_updated(oid))
            as changes
    from
        tree
    group by
        root
),
bare as (
    select
        k.oid,
        count(*) as tables,
        sum(greatest(c.reltuples, 0)) as rows,
        case when bool_and(c.analyzed is not null) then max(date_part('epoch', now() - c.analyzed)) end as analyze_age
    from
        keys as k
        join tree as t on t.root = k.conrelid
        join lateral (
            select
                c.oid,
                c.reltuples::float8,
                greatest(
                    pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)
                ) as analyzed,
                -- A partition may have its columns in another order.
                array(select attnum from pg_attribute where attrelid = c.oid and attname = any (k.names)) as numbers
            from
                pg_class as c
            where
                c.oid = t.oid
                and c.relkind = 'r'
        ) as c on true
    where
        not exists (
            select
            from
                pg_index as i
            where
                i.indrelid = c.oid
                and i.indisvalid
                -- The first columns of the index, in any order.
                and (i.indkey::int2[])[0:cardinality(c.numbers) - 1] @> c.numbers
                -- The search for a value finds no row without one.
                and (i.indpred is null
                    or string_to_array(trim(both '()' from pg_get_expr(i.indpred, i.indrelid)), ') AND (')
                        <@ array(select format('%I IS NOT NULL', name) from unnest(k.names) as name))
        )
    group by
        k.oid
)
select
    format('%I.%I.%I', n.nspname, c.relname, k.conname) as name,
    format('%I.%I', n.nspname, c.relname) as table_name,
    n.nspname::text as schema,
    c.relname::text as table,
    c.relkind = 'p' as is_partitioned,
    k.confrelid::regclass::text as other,
    (select string_agg(quote_ident(a.attname), ', ' order by u.place)
        from pg_constraint as o
        cross join unnest(o.conkey) with ordinality as u (attnum, place)
        join pg_attribute as a on a.attrelid = k.conrelid and a.attnum = u.attnum
        where o.oid = k.oid) as columns,
    pg_get_constraintdef(k.oid) as definition,
    b.tables,
    b.rows::bigint,
    b.analyze_age::float8,
    d.changes::bigint
from
    bare as b
    join keys as k using (oid)
    join changed as d on d.root = k.confrelid
    join pg_class as c on c.oid = k.conrelid
    join pg_namespace as n on n.oid = c.relnamespace
where
    b.rows >= $1::float8
    and d.changes > 0
order by
    b.rows desc, name
limit $2
