-- Large tables with the space that their rows need, by the statistics of their columns; those of which nothing is known come
-- last. $1: smaller tables do not count, in bytes. $2: at least so many percent are free, or nobody knows. $3: at most so
-- many.
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
        -- What a rewrite copies besides the rows: indexes, and large values with their index.
        (select coalesce(sum(x.relpages), 0)::float8 * current_setting('block_size')::float8
            from pg_class as x
            where x.oid = c.reltoastrelid
                or x.oid in (select indexrelid from pg_index where indrelid in (c.oid, c.reltoastrelid))) as other_bytes,
        (select count(*) from pg_attribute as a
            where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated <> 'v') as columns,
        c.relkind = 'r'
        and exists (select from pg_index as i where i.indrelid = c.oid and i.indisprimary) as has_key
    from
        pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace
    where
        c.relkind in ('r', 'm')
        and c.relpersistence <> 't'
        and n.nspname !~ '^pg_toast'
        and n.nspname not in ('pg_catalog', 'information_schema')
        and c.relpages::float8 * current_setting('block_size')::float8 >= $1::float8
),
needs as (
    select
        s.*,
        -- 24 bytes before the columns, 8 for alignment, 4 for the pointer to the row.
        (select case when count(*) >= s.columns and s.rows >= 0
            then s.rows * (36 + coalesce(sum((1 - null_frac) * avg_width), 0)) / s.filled end
            from pg_stats where schemaname = s.nspname and tablename = s.relname and not inherited)::float8 as needed
    from
        sizes as s
)
select
    oid,
    name,
    bytes::bigint,
    filled,
    other_bytes::bigint,
    has_key,
    case when needed is not null then least(needed, bytes)::bigint end as needed
from
    needs
where
    needed is null
    or 100 * (bytes - needed) >= bytes * $2::float8
order by
    needed is null, bytes - needed desc, bytes desc, name
limit $3
