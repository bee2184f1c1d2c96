-- Large B-tree indexes with the space that their entries need, by the statistics of their columns. $1: smaller indexes do
-- not count, in bytes. $2: at least so many percent are free, or nobody knows. $3: at most so many.
with sizes as (
    select
        i.indexrelid as oid,
        format('%I.%I', n.nspname, x.relname) as name,
        i.indrelid::regclass::text as table_name,
        n.nspname,
        x.relname,
        i.indrelid,
        i.indkey,
        greatest(x.reltuples, 0)::float8 as rows,
        x.relpages::float8 * current_setting('block_size')::float8 as bytes,
        -- A page without its header and its end, as full as the index's option allows.
        (current_setting('block_size')::float8 - 40) / current_setting('block_size')::float8
        * coalesce(
            (select option_value::float8 from pg_options_to_table(x.reloptions) where option_name = 'fillfactor'), 90
        ) / 100 as filled
    from
        pg_index as i
        join pg_class as x on x.oid = i.indexrelid and x.relkind = 'i' and x.relpersistence <> 't'
        join pg_am as m on m.oid = x.relam and m.amname = 'btree'
        join pg_namespace as n on n.oid = x.relnamespace
    where
        i.indisvalid
        and n.nspname !~ '^pg_toast'
        and x.relpages::float8 * current_setting('block_size')::float8 >= $1::float8
),
widths as (
    -- Columns of the index, those of expressions included.
    select
        s.oid,
        count(*) = count(p.avg_width) as is_known,
        sum((1 - p.null_frac) * p.avg_width) as width
    from
        sizes as s
        cross join lateral unnest(s.indkey::int2[]) with ordinality as k (attnum, place)
        join pg_class as t on t.oid = s.indrelid
        join pg_namespace as tn on tn.oid = t.relnamespace
        left join pg_attribute as a on a.attrelid = s.indrelid and a.attnum = k.attnum and k.attnum <> 0
        left join pg_attribute as e on e.attrelid = s.oid and e.attnum = k.place and k.attnum = 0
        left join pg_stats as p
            on p.schemaname = case when k.attnum = 0 then s.nspname else tn.nspname end
            and p.tablename = case when k.attnum = 0 then s.relname else t.relname end
            and p.attname = coalesce(a.attname, e.attname)
            and not p.inherited
    group by
        s.oid
),
needs as (
    select
        s.*,
        -- 8 bytes before the columns, 8 for alignment, 4 for the pointer to the entry. Equal entries share them, so this
        -- is the most that is needed.
        case when w.is_known then s.rows * (20 + w.width) / s.filled end as needed
    from
        sizes as s
        join widths as w using (oid)
)
select
    oid,
    name,
    table_name,
    bytes::bigint,
    filled,
    greatest(bytes - needed, 0)::bigint as free
from
    needs
where
    needed is null
    or 100 * (bytes - needed) >= bytes * $2::float8
order by
    coalesce(bytes - needed, bytes) desc, name
limit $3
