-- Large B-tree indexes with the space that their entries need, by the statistics of their columns. $1: smaller indexes do
-- not count, in bytes. $2: at least so many percent are free, or nobody knows. $3: at most so many. $4: if not null, larger
-- indexes do not count, and only so many ($5) of the others.
with sizes as (
    select
        i.indexrelid as oid,
        format('%I.%I', n.nspname, x.relname) as name,
        i.indrelid::regclass::text as table_name,
        i.indrelid,
        i.indkey,
        i.indpred is not null as is_partial,
        date_part('epoch', now() - greatest(
            pg_stat_get_last_analyze_time(i.indrelid), pg_stat_get_last_autoanalyze_time(i.indrelid)
        ))::float8 as analyze_age,
        x.reltuples::float8 as rows,
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
        and n.nspname not in ('pg_catalog', 'information_schema')
        and x.relpages >= $1::float8 / (select current_setting('block_size')::float8)
        and ($4::float8 is null or x.relpages < $4 / (select current_setting('block_size')::float8))
    order by
        x.relpages desc
    limit case when $4 is not null then $5::bigint end
),
widths as (
    -- Columns of the index, those of expressions included. The statistics of each are looked up alone, because a join with
    -- the view would read all of it.
    select
        s.oid,
        count(*) = count(w.width) and min(s.rows) >= 0 as is_known,
        sum(w.width) as width
    from
        sizes as s
        cross join lateral unnest(s.indkey::int2[]) with ordinality as k (attnum, place)
        cross join lateral (
            select
                (select (1 - p.null_frac) * p.avg_width from pg_stats as p
                    where p.schemaname = n.nspname and p.tablename = t.relname and p.attname = a.attname
                        and not p.inherited) as width
            from
                pg_class as t
                join pg_namespace as n on n.oid = t.relnamespace
                join pg_attribute as a on a.attrelid = t.oid
                    and a.attnum = case when k.attnum = 0 then k.place else k.attnum end
            where
                t.oid = case when k.attnum = 0 then s.oid else s.indrelid end
        ) as w
    group by
        s.oid
),
needs as (
    select
        s.*,
        -- 8 bytes before the columns, 8 for alignment, 4 for the pointer to the entry. Equal entries share them, so this
        -- is the most that is needed, with the first page and the root. Statistics of all rows say nothing about those of
        -- a partial index.
        case when w.is_known and not s.is_partial
            then s.rows * (20 + w.width) / s.filled + 2 * current_setting('block_size')::float8
        end as needed
    from
        sizes as s
        join widths as w using (oid)
)
select
    oid,
    name,
    table_name,
    bytes::bigint,
    current_setting('block_size')::bigint as page_bytes,
    filled,
    analyze_age,
    case when needed is not null then least(needed, bytes)::bigint end as needed
from
    needs
where
    needed is null
    or 100 * (bytes - needed) >= bytes * $2::float8
order by
    needed is null, bytes - needed desc, bytes desc, name
limit $3
