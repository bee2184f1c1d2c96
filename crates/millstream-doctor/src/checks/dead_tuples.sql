-- Tables, also TOAST tables, with more dead row versions than autovacuum waits for, by this table's own settings, and
-- how fast autovacuum may work on them. $1: smaller tables do not count, in bytes. $2: also tables that autovacuum has
-- just visited. $3: at most so many. $4: tables that are smaller than this come apart, and are at most $5. All in one
-- statement, because the counters of each table are looked up.
with relation as (
    select
        c.oid,
        c.oid <> o.oid as is_toast,
        format('%I.%I', n.nspname, o.relname) as owner,
        c.reltuples,
        -- The number of pages is that of the last vacuum or analyze; a row takes at least 28 bytes.
        greatest(
            c.relpages::bigint * current_setting('block_size')::bigint,
            28 * (pg_stat_get_live_tuples(c.oid) + pg_stat_get_dead_tuples(c.oid))
        ) as bytes,
        -- Vacuum skips these pages. The number is that of the last vacuum or analyze, too.
        c.relallvisible::float8 as visible_pages,
        -- Autovacuum takes the options of the owner for a TOAST table that has none.
        coalesce(c.reloptions, o.reloptions) as options,
        case when c.oid <> o.oid and c.reloptions is not null then 'toast.' else '' end as prefix
    from
        pg_class as c
        left join pg_class as w on w.reltoastrelid = c.oid and c.relkind = 't'
        join pg_class as o on o.oid = coalesce(w.oid, c.oid) and o.relkind in ('r', 'm')
        join pg_namespace as n on n.oid = o.relnamespace
    where
        c.relkind in ('r', 'm', 't')
        and c.relpersistence <> 't'
        and n.nspname not in ('pg_catalog', 'information_schema')
        and n.nspname !~ '^pg_toast'
        and pg_stat_get_dead_tuples(c.oid) > 0
),
option as (
    select
        r.oid,
        -- -1 stands for the server's.
        nullif(max(
            case o.option_name when 'autovacuum_vacuum_cost_delay' then o.option_value::float8 end
        ), -1) as delay,
        nullif(max(
            case o.option_name when 'autovacuum_vacuum_cost_limit' then o.option_value::float8 end
        ), -1) as cost
    from
        relation as r
        cross join lateral pg_options_to_table(r.options) as o
    group by
        r.oid
),
setting as (
    select
        max(case name when 'autovacuum_naptime' then setting::float8 end) as naptime,
        coalesce(
            max(case name when 'autovacuum_vacuum_cost_delay' then nullif(setting::float8, -1) end),
            max(case name when 'vacuum_cost_delay' then setting::float8 end)
        ) as delay,
        coalesce(
            max(case name when 'autovacuum_vacuum_cost_limit' then nullif(setting::float8, -1) end),
            max(case name when 'vacuum_cost_limit' then setting::float8 end)
        ) as cost
    from
        pg_settings
    where
        name like 'autovacuum%' or name like 'vacuum\_cost\_%'
),
-- Vacuums at work. What a user has started has another pace.
work as (
    select
        p.relid,
        bool_and(a.backend_type = 'autovacuum worker') as is_auto,
        max(date_part('epoch', now() - a.xact_start))::float8 as seconds
    from
        pg_stat_progress_vacuum as p
        left join pg_stat_activity as a on a.pid = p.pid
    where
        p.datname = current_database()
        and p.relid is not null
    group by
        p.relid
),
tables as (
    select
        r.*,
        pg_stat_get_live_tuples(r.oid) as live,
        pg_stat_get_dead_tuples(r.oid) as dead,
        greatest(pg_stat_get_last_vacuum_time(r.oid), pg_stat_get_last_autovacuum_time(r.oid)) as last_vacuum,
        threshold.dead_rows as trigger,
        threshold.enabled,
        coalesce(o.delay, s.delay) as delay,
        coalesce(o.cost, s.cost) as cost_limit,
        coalesce(o.delay > s.delay, false) as has_own_delay,
        o.cost is not null as has_own_limit,
        -- Workers on tables without such options share the limit.
        o.delay is null and o.cost is null as is_shared,
        s.naptime,
        w.relid is not null as in_progress,
        coalesce(w.is_auto, w.relid is null) as may_count,
        w.seconds as work_seconds
    from
        relation as r
        cross join setting as s
        cross join lateral (
{threshold}) as threshold
        left join option as o on o.oid = r.oid
        left join work as w on w.relid = r.oid
    where
        r.bytes >= $1::float8
),
ranked as (
    select
        *,
        bytes < $4::float8 as is_small,
        row_number() over (
            partition by bytes < $4::float8
            order by dead::float8 / greatest(live + dead, 1) * bytes desc, owner, is_toast
        ) as place
    from
        tables
    where
        dead > trigger
        and may_count
        and (
            $2 or in_progress or not enabled or last_vacuum is null
            or last_vacuum < now() - make_interval(secs => 10 * naptime)
        )
)
select
    ranked.*,
    trigger::bigint as starts_at,
    date_part('epoch', now() - last_vacuum)::float8 as vacuum_age,
    (
        select coalesce(sum(x.relpages), 0)::float8
        from pg_index as i join pg_class as x on x.oid = i.indexrelid
        where i.indrelid = ranked.oid
    ) as index_pages
from
    ranked
where
    place <= case when is_small then $5::bigint else $3::bigint end
order by
    place
