-- Small tables with very many updates of each row. $1: larger tables do not count, in rows. $2, $3: least number of
-- updates of the table, and of each row. $4: at most so many.
select
    format('%I.%I', s.schemaname, s.relname) as name,
    s.n_live_tup as live,
    s.n_tup_upd as updates,
    s.n_tup_upd / s.n_live_tup as per_row,
    (select count(*) from pg_locks as l where l.relation = s.relid and l.locktype = 'tuple' and not l.granted) as waiting,
    extract(epoch from now() - d.stats_reset)::float8 as seconds
from
    pg_stat_user_tables as s
    join pg_stat_database as d on d.datname = current_database()
where
    s.n_live_tup between 1 and $1::float8
    and s.n_tup_upd >= $2::float8
    and s.n_tup_upd >= $3::float8 * s.n_live_tup
order by
    updates desc, name
limit $4
