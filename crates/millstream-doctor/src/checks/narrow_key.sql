-- Columns of keys whose largest value is near the largest of their type, and that get their numbers from no sequence.
-- $1: from this share on. $2: at most so many.
with keys as (
    select indrelid as attrelid, indkey[0] as attnum
    from pg_index
    where indisunique and indnkeyatts = 1
    union
    -- Where the key that it refers to has the same type, that one shows the same.
    select k.conrelid, k.conkey[1]
    from
        pg_constraint as k
        join pg_attribute as a on a.attrelid = k.conrelid and a.attnum = k.conkey[1]
        join pg_attribute as o on o.attrelid = k.confrelid and o.attnum = k.confkey[1]
    where
        k.contype = 'f'
        and cardinality(k.conkey) = 1
        and o.atttypid <> a.atttypid
),
narrow as materialized (
    select
        a.attrelid,
        a.attnum,
        a.attname,
        a.atttypid::regtype::text as type,
        case a.atttypid when 'int2'::regtype then 32767 else 2147483647 end as end_value
    from
        keys
        -- One look-up for each key: a scan would read all columns of the database.
        cross join lateral (
            select c.* from pg_attribute as c where c.attrelid = keys.attrelid and c.attnum = keys.attnum offset 0
        ) as a
    where
        a.atttypid in ('int2'::regtype, 'int4'::regtype)
        and a.attnum > 0
        and not a.attisdropped
        and a.attidentity = ''
        and a.attinhcount = 0
        -- What a sequence numbers is in sequence-end. Few columns come so far, so it is looked up for each.
        and not exists (
            select from pg_depend as d
            where
                d.classid = 'pg_class'::regclass
                and d.refclassid = 'pg_class'::regclass
                and d.refobjid = a.attrelid
                and d.refobjsubid = a.attnum
                and d.deptype in ('a', 'i')
                and exists (select from pg_sequence as s where s.seqrelid = d.objid)
            offset 0
        )
        and not exists (
            select from pg_attrdef as f join pg_depend as d on d.objid = f.oid join pg_class as s on s.oid = d.refobjid
            where f.adrelid = a.attrelid and f.adnum = a.attnum and s.relkind = 'S'
            offset 0
        )
),
used as (
    select
        n.*,
        (s.histogram_bounds::text::bigint[])[array_upper(s.histogram_bounds::text::bigint[], 1)] as bound,
        (select max(v) from unnest(s.most_common_vals::text::bigint[]) as v) as common,
        -- Hashes and random numbers are no counter: they come in no order, or are negative.
        coalesce(abs(s.correlation) > 0.9, false)
            and coalesce((s.histogram_bounds::text::bigint[])[1], 0) >= 0 as counts_up
    from
        narrow as n
        join pg_class as c on c.oid = n.attrelid and c.relpersistence <> 't' and c.relkind in ('r', 'p')
        join pg_namespace as m on m.oid = c.relnamespace and m.nspname <> 'pg_catalog'
        -- For one column after the other: the view is not made to be joined.
        cross join lateral (
            select p.histogram_bounds, p.most_common_vals, p.correlation
            from pg_stats as p
            where
                p.schemaname = m.nspname
                and p.tablename = c.relname
                and p.attname = n.attname
                and p.inherited = (c.relkind = 'p')
            offset 0
        ) as s
)
select
    attrelid::regclass::text as table_name,
    quote_ident(attname) as column_name,
    type,
    end_value::bigint as end_value,
    greatest(bound, common) as largest
from
    used
where
    greatest(bound, common) >= $1::float8 * end_value
    and counts_up
order by
    greatest(bound, common)::float8 / end_value desc, 1, 2
limit $2
