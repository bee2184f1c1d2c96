-- Tables of this database, also TOAST tables that hold something: their rows, the dead ones, from how many dead ones on
-- autovacuum comes by this table's own settings, and when it was vacuumed. $1: at most so many, the largest first. All in one
-- statement, because the counters of each table are looked up.
with relation as materialized (
    select
        c.oid,
        part.is_toast,
        n.nspname,
        o.relname,
        c.relpages,
        c.reltuples,
        -- Autovacuum takes the options of the owner for a TOAST table that has none.
        coalesce(c.reloptions, o.reloptions) as options,
        pg_stat_get_live_tuples(c.oid) as live,
        pg_stat_get_dead_tuples(c.oid) as dead
    from
        pg_class as o
        join pg_namespace as n on n.oid = o.relnamespace
        -- The types, because the server could not plan a counted statement without them again.
        cross join lateral (values (o.oid, false::bool), (o.reltoastrelid, true::bool)) as part (oid, is_toast)
        join pg_class as c on c.oid = part.oid
    where
        o.relkind in ('r', 'm')
        and o.relpersistence <> 't'
        and n.nspname not in ('pg_catalog', 'information_schema')
        and n.nspname !~ '^pg_toast'
        and (not part.is_toast or c.relpages > 0 or pg_stat_get_dead_tuples(c.oid) > 0)
    order by
        c.relpages desc, c.oid
    limit $1::int8
),
option as (
    select
        r.oid,
        max(case o.option_name when 'autovacuum_vacuum_threshold' then o.option_value::float8 end) as threshold,
        max(case o.option_name when 'autovacuum_vacuum_scale_factor' then o.option_value::float8 end) as factor,
        max(case o.option_name when 'autovacuum_vacuum_max_threshold' then o.option_value::float8 end) as cap,
        bool_and(case o.option_name when 'autovacuum_enabled' then o.option_value::bool end) as enabled
    from
        relation as r
        cross join lateral pg_options_to_table(r.options) as o
    where
        r.options is not null
    group by
        r.oid
),
setting as (
    select
        max(case name when 'autovacuum_vacuum_threshold' then setting::float8 end) as threshold,
        max(case name when 'autovacuum_vacuum_scale_factor' then setting::float8 end) as factor,
        max(case name when 'autovacuum_vacuum_max_threshold' then setting::float8 end) as cap,
        bool_and(case name when 'autovacuum' then setting::bool end) as enabled
    from
        pg_settings
    where
        name like 'autovacuum%'
),
tables as (
    select
        r.*,
        -- PostgreSQL 18 caps the sum; -1 means no cap.
        least(
            coalesce(o.threshold, s.threshold) + coalesce(o.factor, s.factor) * greatest(r.reltuples, 0),
            nullif(coalesce(o.cap, s.cap), -1)
        ) as vacuum_from,
        s.enabled and coalesce(o.enabled, true) as autovacuum,
        pg_stat_get_last_vacuum_time(r.oid) as vacuum_at,
        pg_stat_get_last_autovacuum_time(r.oid) as autovacuum_at
    from
        relation as r
        cross join setting as s
        left join option as o on o.oid = r.oid
)
select
    oid,
    format('%I.%I', nspname, relname) as owner,
    is_toast,
    relpages::int8 * current_setting('block_size')::int8 as bytes,
    -- -1: nobody has vacuumed or analyzed it.
    case when reltuples >= 0 then reltuples::int8 else live end as rows,
    live,
    dead,
    vacuum_from::int8 as vacuum_from,
    dead > vacuum_from as is_due,
    autovacuum,
    to_char(vacuum_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as vacuum_at,
    to_char(autovacuum_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as autovacuum_at,
    date_part('epoch', now() - vacuum_at)::float8 as vacuum_age,
    date_part('epoch', now() - autovacuum_at)::float8 as autovacuum_age
from
    tables
