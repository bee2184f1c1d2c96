-- Small tables with very many updates of each row. $1: larger tables do not count, in rows. $2, $3: least number of
-- updates of the table, and of each row. $4: least number of updates a second. $5: seconds for which the database
-- has counted. $6: at most so many.
select
    format('%I.%I', n.nspname, c.relname) as name,
    s.live,
    s.updates,
    s.updates / s.live as per_row,
    (select count(*) from pg_locks as l where l.relation = c.oid and l.locktype = 'tuple' and not l.granted) as waiting,
    s.updates / $5::float8 as per_second
from
    pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
    cross join lateral (
        select pg_stat_get_live_tuples(c.oid) as live, pg_stat_get_tuples_updated(c.oid) as updates offset 0
    ) as s
where
    c.relkind in ('r', 'm')
    and c.relpersistence <> 't'
    and s.live between 1 and $1::float8
    and s.updates >= $2::float8
    and s.updates >= $3::float8 * s.live
    and s.updates >= $4::float8 * $5::float8
order by
    updates desc, name
limit $6
