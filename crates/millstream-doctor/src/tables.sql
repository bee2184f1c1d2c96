-- Tables of this database, also TOAST tables that hold something: their rows, the dead ones, from how many dead ones on
-- autovacuum comes by this table's own settings, and when it was vacuumed. $1: at most so many, the largest first. $2: schemas of
-- Millstream. All in one statement, because the counters of each table are looked up.
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
tables as (
    select
        r.*,
        threshold.dead_rows as vacuum_from,
        current_setting('autovacuum')::bool and threshold.enabled as autovacuum,
        pg_stat_get_last_vacuum_time(r.oid) as vacuum_at,
        pg_stat_get_last_autovacuum_time(r.oid) as autovacuum_at
    from
        relation as r
        cross join lateral (
{threshold}) as threshold
)
select
    oid,
    format('%I.%I', nspname, relname) as owner,
    is_toast,
    -- Read models and what was appended are the user's data.
    nspname = any($2::text[]) and relname !~ '^(model|segment)_[0-9]' as is_own,
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
