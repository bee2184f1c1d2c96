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
    format('%I.%I', s.schemaname, s.relname) as name,
    s.n_live_tup as live,
    s.n_tup_upd as updates,
    s.n_tup_upd / s.n_live_tup as per_row,
    (select count(*) from pg_locks as l where l.relation = s.relid and l.locktype = 'tuple' and not l.granted) as waiting,
    s.n_tup_upd / greatest(counters.seconds, 1) as per_second,
    counters.seconds
from
    pg_stat_user_tables as s
    join pg_class as c on c.oid = s.relid and c.relpersistence <> 't'
    cross join counters
where
    s.n_live_tup between 1 and $1::float8
    and s.n_tup_upd >= $2::float8
    and s.n_tup_upd >= $3::float8 * s.n_live_tup
    and s.n_tup_upd >= $4::float8 * greatest(counters.seconds, 1)
order by
    updates desc, name
limit $5
