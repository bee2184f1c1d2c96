-- Small tables with very many updates of each row. $1: larger tables do not count, in rows. $2, $3: least number of
-- updates of the table, and of each row. $4: least number of updates a second. $5: at most so many.
with counters as (
    select date_part('epoch', now() - coalesce(
        d.stats_reset,
        -- After a crash the counters begin anew, and this is empty. The earliest of these times errs on the calm side.
        (select least(b.stats_reset, a.stats_reset, w.stats_reset, pg_postmaster_start_time())
            from pg_stat_bgwriter as b, pg_stat_archiver as a, pg_stat_wal as w)
    ))::float8 as seconds
    from pg_stat_database as d
    where d.datname = current_database()
)
select
    format('%I.%I', n.nspname, c.relname) as name,
    s.live,
    s.updates,
    s.updates / s.live as per_row,
    (select count(*) from pg_locks as l where l.relation = c.oid and l.locktype = 'tuple' and not l.granted) as waiting,
    s.updates / greatest(counters.seconds, 1) as per_second,
    counters.seconds
from
    pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
    cross join lateral (
        select pg_stat_get_live_tuples(c.oid) as live, pg_stat_get_tuples_updated(c.oid) as updates offset 0
    ) as s
    cross join counters
where
    c.relkind in ('r', 'm')
    and c.relpersistence <> 't'
    and s.live between 1 and $1::float8
    and s.updates >= $2::float8
    and s.updates >= $3::float8 * s.live
    and s.updates >= $4::float8 * greatest(counters.seconds, 1)
order by
    updates desc, name
limit $5
