-- Large tables, also TOAST tables, with the space that their rows need, by the statistics of their columns; those of
-- which nothing is known come last. $1: smaller tables do not count, in bytes. $2: at least so many percent are free,
-- or nobody knows. $3: at most so many. $4: if not null, larger tables do not count, and only so many ($5) of the others.
with sized as materialized (
    select *
    from pg_class
    where
        relkind in ('r', 'm', 't')
        and relpersistence <> 't'
        and relpages >= $1::float8 / (select current_setting('block_size')::float8)
        and ($4::float8 is null or relpages < $4 / (select current_setting('block_size')::float8))
),
large as materialized (
    select c.*, c.oid as owner from sized as c where c.relkind in ('r', 'm')
    union all
    -- A TOAST table that was never vacuumed has no space that vacuum made free.
    select c.*, o.oid
    from sized as c join pg_class as o on o.reltoastrelid = c.oid and o.relkind in ('r', 'm')
    where c.relkind = 't' and c.reltuples >= 0
),
sizes as (
    select
        c.oid,
        o.oid as owner,
        format('%I.%I', n.nspname, o.relname) as name,
        c.oid <> o.oid as is_toast,
        n.nspname,
        o.relname,
        c.reltuples::float8 as rows,
        c.relpages::float8 * current_setting('block_size')::float8 as bytes,
        -- A page without its header, as full as the table's option allows.
        (current_setting('block_size')::float8 - 24) / current_setting('block_size')::float8
        * coalesce(
            (select option_value::float8 from pg_options_to_table(c.reloptions) where option_name = 'fillfactor'), 100
        ) / 100 as filled,
        current_setting('block_size')::float8 as block,
        -- Values that are longer than this are stored apart. With a larger option, rows differ more.
        coalesce((
            select option_value::float8 > current_setting('block_size')::float8 / 4
            from pg_options_to_table(o.reloptions) where option_name = 'toast_tuple_target'
        ), false) as has_wide_rows,
        -- What a rewrite copies besides these rows: indexes, and the table's other part with its index.
        (select coalesce(sum(x.relpages), 0)::float8 * current_setting('block_size')::float8
            from (
                select relpages from pg_class where oid in (o.oid, o.reltoastrelid) and oid <> c.oid
                union all
                select k.relpages
                from pg_index as i join pg_class as k on k.oid = i.indexrelid
                where i.indrelid in (o.oid, o.reltoastrelid)
            ) as x
        ) as other_bytes,
        (select count(*) from pg_attribute as a
            where a.attrelid = o.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated <> 'v') as columns,
        o.relkind = 'r'
        and exists (select from pg_index as i where i.indrelid = o.oid and i.indisprimary) as has_key,
        date_part('epoch', now() - greatest(
            pg_stat_get_last_analyze_time(o.oid), pg_stat_get_last_autoanalyze_time(o.oid)
        ))::float8 as analyze_age
    from
        large as c
        join pg_class as o on o.oid = c.owner and o.relkind in ('r', 'm')
        join pg_namespace as n on n.oid = o.relnamespace
    where
        n.nspname !~ '^pg_toast'
        and n.nspname not in ('pg_catalog', 'information_schema')
    order by
        c.relpages desc
    limit case when $4 is not null then $5::bigint end
),
rows_of as (
    select
        s.*,
        w.width,
        s.has_wide_rows or coalesce(w.has_wide_values, false) as is_uneven
    from
        sizes as s
        cross join lateral (
            -- 24 bytes before the columns, 8 for alignment, 4 for the pointer to the row. A row with a value that is null has
            -- a bit for each column, also for a dropped one. This is the most that is needed.
            select
                case when count(one.width) >= s.columns and s.rows >= 0 then
                    36 + coalesce(sum(one.width + one.padding), 0) + least(sum(one.null_frac), 1) * ceil(count(*) / 8.0)
                    end::float8 as width,
                bool_or(one.is_wide) as has_wide_values
            from
                (
                    select
                        case when c.is_stored then p.null_frac else 1 end as null_frac,
                        case when c.is_stored then (1 - p.null_frac) * p.avg_width end as width,
                        -- A value begins where its alignment says. A text of up to 126 bytes has none, and ends anywhere.
                        case when c.is_stored then (1 - p.null_frac) * case
                            when c.length > 0 then greatest(c.alignment - c.before, 0)
                            else (c.alignment - 1) * least(p.avg_width / 127.0, 1)
                        end end as padding,
                        -- It stays in its row, however long it is. Short ones hardly matter.
                        c.is_stored and c.length < 0 and c.storage in ('p', 'm') and p.avg_width >= 100 as is_wide
                    from
                        (select
                            a.attname,
                            a.attnum,
                            a.attlen as length,
                            a.attstorage as storage,
                            not a.attisdropped and a.attgenerated <> 'v' as is_stored,
                            a.alignment,
                            coalesce(lag(case when a.attlen > 0 and a.attlen % a.alignment = 0 then a.alignment else 1 end)
                                over (order by a.attnum), 8) as before
                        from
                            (select *, case attalign when 'd' then 8 when 'i' then 4 when 's' then 2 else 1 end as alignment
                                from pg_attribute where attrelid = s.owner and attnum > 0) as a
                        ) as c
                        left join (select * from pg_stats
                            where schemaname = s.nspname and tablename = s.relname and not inherited
                        ) as p on p.attname = c.attname and c.is_stored
                ) as one
            where
                not s.is_toast
        ) as w
),
needs as (
    select
        r.*,
        case
            -- A page has room for four of the largest pieces of a value.
            when r.is_toast then r.rows / 4 * r.block
            when r.width is null then null
            -- A row is in one page. If wide rows stand between narrow ones, a row and the one after it fill at least one page.
            when r.is_uneven then least(r.rows, 2 * r.rows * r.width / (r.filled * r.block)) * r.block
            else r.rows / greatest(floor(r.filled * r.block / r.width), 1) * r.block
        end as needed
    from
        rows_of as r
)
select
    oid,
    name,
    is_toast,
    bytes::bigint,
    filled,
    block,
    is_uneven,
    other_bytes::bigint,
    has_key,
    analyze_age,
    case when needed is not null then least(needed, bytes)::bigint end as needed
from
    needs
where
    needed is null
    or 100 * (bytes - needed) >= bytes * $2::float8
order by
    needed is null, bytes - needed desc, bytes desc, name, is_toast
limit $3
