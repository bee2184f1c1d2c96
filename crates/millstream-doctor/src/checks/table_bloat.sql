-- Large tables with the space that their rows need, by the statistics of their columns. $1: smaller tables do not count,
-- in bytes. $2: at least so many percent are free, or nobody knows. $3: at most so many.
with sizes as (
    select
        c.oid,
        format('%I.%I', n.nspname, c.relname) as name,
        n.nspname,
        c.relname,
        c.reltuples::float8 as rows,
        c.relpages::float8 * current_setting('block_size')::float8 as bytes,
        -- A page without its header, as full as the table's option allows.
        (current_setting('block_size')::float8 - 24) / current_setting('block_size')::float8
        * coalesce(
            (select option_value::float8 from pg_options_to_table(c.reloptions) where option_name = 'fillfactor'), 100
        ) / 100 as filled,
        (select coalesce(sum(x.relpages), 0)::float8 * current_setting('block_size')::float8
            from pg_index as i join pg_class as x on x.oid = i.indexrelid where i.indrelid = c.oid) as index_bytes,
        c.relnatts - (select count(*) from pg_attribute where attrelid = c.oid and attnum > 0 and attisdropped) as columns
    from
        pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace
    where
        c.relkind in ('r', 'm')
        and c.relpersistence <> 't'
        and c.reltuples >= 0
        and n.nspname !~ '^pg_toast'
        and c.relpages::float8 * current_setting('block_size')::float8 >= $1::float8
),
needs as (
    select
        s.*,
        -- 24 bytes before the columns, 8 for alignment, 4 for the pointer to the row.
        (select case when count(*) = s.columns then s.rows * (36 + sum((1 - null_frac) * avg_width)) / s.filled end
            from pg_stats where schemaname = s.nspname and tablename = s.relname and not inherited)::float8 as needed
    from
        sizes as s
)
select
    oid,
    name,
    bytes::bigint,
    filled,
    index_bytes::bigint,
    greatest(bytes - needed, 0)::bigint as free
from
    needs
where
    needed is null
    or 100 * (bytes - needed) >= bytes * $2::float8
order by
    coalesce(bytes - needed, bytes) desc, name
limit $3
