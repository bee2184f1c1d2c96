-- Tables with more dead row versions than autovacuum waits for, by this table's own settings, that no vacuum is working
-- on. $1: smaller tables do not count, in bytes. $2: also tables that autovacuum has just visited. $3: at most so many.
with option as (
    select
        c.oid,
        o.option_name as name,
        o.option_value as value
    from
        pg_class as c
        cross join lateral pg_options_to_table(c.reloptions) as o
    where
        c.relkind in ('r', 'm')
        and o.option_name like 'autovacuum%'
),
setting as (
    select name, setting as value from pg_settings where name like 'autovacuum%'
),
tables as (
    select
        c.oid,
        format('%I.%I', n.nspname, c.relname) as name,
        s.n_live_tup as live,
        s.n_dead_tup as dead,
        -- The number of pages is that of the last vacuum or analyze; a row takes at least 28 bytes.
        greatest(
            c.relpages::bigint * current_setting('block_size')::bigint, 28 * (s.n_live_tup + s.n_dead_tup)
        ) as bytes,
        greatest(s.last_vacuum, s.last_autovacuum) as last_vacuum,
        coalesce(
            (select value from option where oid = c.oid and name = 'autovacuum_vacuum_threshold'),
            (select value from setting where name = 'autovacuum_vacuum_threshold')
        )::float8
        + coalesce(
            (select value from option where oid = c.oid and name = 'autovacuum_vacuum_scale_factor'),
            (select value from setting where name = 'autovacuum_vacuum_scale_factor')
        )::float8 * greatest(c.reltuples, 0) as sum,
        -- PostgreSQL 18 caps the sum; -1 means no cap.
        nullif(coalesce(
            (select value from option where oid = c.oid and name = 'autovacuum_vacuum_max_threshold'),
            (select value from setting where name = 'autovacuum_vacuum_max_threshold')
        )::float8, -1) as cap,
        coalesce((select value from option where oid = c.oid and name = 'autovacuum_enabled'), 'on')::bool as enabled
    from
        pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace
        join pg_stat_user_tables as s on s.relid = c.oid
    where
        c.relkind in ('r', 'm')
        and c.relpersistence <> 't'
)
select
    name,
    live,
    dead,
    bytes,
    least(sum, cap)::bigint as trigger,
    enabled,
    extract(epoch from now() - last_vacuum)::float8 as vacuum_age
from
    tables
where
    dead > least(sum, cap)
    and bytes >= $1::float8
    and not exists (select from pg_stat_progress_vacuum as p where p.relid = tables.oid and p.datname = current_database())
    and ($2 or not enabled or last_vacuum is null or last_vacuum < now() - make_interval(
        secs => 10 * (select setting::float8 from pg_settings where name = 'autovacuum_naptime')
    ))
order by
    dead::float8 / greatest(live + dead, 1) * bytes desc, name
limit $3
