-- Foreign keys whose references no index finds, or one that finds many rows for a part of the key, if rows of the other table
-- were deleted, or updated in a way that can change a key. A partitioned table is what its partitions are. $1: fewer rows that
-- are read for a key do not count. $2: at most so many.
with recursive keys as (
    select
        k.oid,
        k.conname,
        k.conrelid,
        k.confrelid,
        array(
            select a.attname
            from unnest(k.conkey) with ordinality as u (attnum, place)
                join pg_attribute as a on a.attrelid = k.conrelid and a.attnum = u.attnum
            order by u.place
        ) as names,
        -- The operator that compares each of them.
        k.conpfeqop as operators
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
        -- Rows that are read for each key.
        sum(coalesce(best.rows, greatest(c.reltuples, 0))) as read,
        case when bool_and(best.name is not null) then min(best.name) end as index_name,
        case when bool_and(c.analyzed is not null) then max(date_part('epoch', now() - c.analyzed)) end as analyze_age
    from
        keys as k
        join tree as t on t.root = k.conrelid
        join lateral (
            select
                c.oid,
                c.relname,
                n.nspname,
                c.reltuples::float8,
                greatest(
                    pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)
                ) as analyzed,
                -- A partition may have its columns in another order.
                array(
                    select a.attnum
                    from unnest(k.names) with ordinality as u (name, place)
                        join pg_attribute as a on a.attrelid = c.oid and a.attname = u.name
                    order by u.place
                ) as numbers
            from
                pg_class as c
                join pg_namespace as n on n.oid = c.relnamespace
            where
                c.oid = t.oid
                and c.relkind = 'r'
        ) as c on true
        -- The index that finds the fewest rows for a key.
        left join lateral (
            select
                i.indexrelid::regclass::text as name,
                case
                    when cardinality(f.found) = cardinality(c.numbers) then 0
                    -- If the statistics do not tell, nothing is said against it.
                    else coalesce((
                        select case when count(p.n_distinct) = cardinality(f.found) then
                            c.reltuples / least(greatest(c.reltuples, 1), exp(sum(ln(greatest(
                                case when p.n_distinct < 0 then -p.n_distinct * c.reltuples else p.n_distinct end, 1
                            )))))
                            end
                        from
                            pg_attribute as a
                            join pg_stats as p
                                on p.schemaname = c.nspname and p.tablename = c.relname and p.attname = a.attname
                                and not p.inherited and p.n_distinct <> 0
                        where
                            a.attrelid = c.oid
                            and a.attnum = any (f.found)
                    ), 0)
                end as rows
            from
                pg_index as i
                -- BRIN finds ranges of pages, and not rows.
                join pg_class as ic on ic.oid = i.indexrelid
                join pg_am as am on am.oid = ic.relam and am.amname <> 'brin'
                cross join lateral (
                    -- Its first keys that are columns of the foreign key, in any order, if it finds them by that operator.
                    select array_agg(one.attnum) as found
                    from (
                        select x.attnum, bool_and(exists (
                            select
                            from
                                unnest(c.numbers, k.operators) as u (attnum, operator)
                                join pg_operator as o on o.oid = u.operator
                                join pg_opclass as s on s.oid = x.class
                                join pg_amop as m on m.amopfamily = s.opcfamily and m.amopopr in (o.oid, o.oprcom)
                                    and m.amoppurpose = 's'
                            where
                                u.attnum = x.attnum
                        )) over (order by x.place) as is_first
                        from unnest(i.indkey::int2[], i.indclass::oid[]) with ordinality as x (attnum, class, place)
                        where x.place <= i.indnkeyatts
                    ) as one
                    where one.is_first
                ) as f
            where
                i.indrelid = c.oid
                and i.indisvalid
                and f.found is not null
                -- The search for a value finds no row without one.
                and (i.indpred is null
                    or string_to_array(trim(both '()' from pg_get_expr(i.indpred, i.indrelid)), ') AND (')
                        <@ array(select format('%I IS NOT NULL', name) from unnest(k.names) as name))
            order by
                rows, name
            limit 1
        ) as best on true
    where
        best.rows is null
        or best.rows >= $1::float8
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
    b.read::bigint as rows_read,
    b.index_name,
    b.analyze_age::float8,
    d.changes::bigint
from
    bare as b
    join keys as k using (oid)
    join changed as d on d.root = k.confrelid
    join pg_class as c on c.oid = k.conrelid
    join pg_namespace as n on n.oid = c.relnamespace
where
    b.read >= $1::float8
    and d.changes > 0
order by
    b.read desc, name
limit $2
