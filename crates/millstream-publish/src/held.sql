-- Who else holds a lock on one of these tables: three of them at most. Null if nobody does.
select pg_catalog.string_agg(holder.who, ', ' order by holder.who)
from (
    select distinct
        case
            when l.pid is null then 'a prepared transaction (see pg_prepared_xacts)'
            when a.usesysid is null then pg_catalog.format('process %s of the server', l.pid)
            else pg_catalog.format('session %s of role %s', l.pid, a.usename)
        end as who
    from pg_catalog.pg_locks l
    join pg_catalog.pg_database d on d.oid = l.database
    left join pg_catalog.pg_stat_activity a on a.pid = l.pid
    where l.relation operator(pg_catalog.=) any (select pg_catalog.to_regclass(name) from pg_catalog.unnest($1::text[]) as name)
      and l.granted
      and l.pid is distinct from pg_catalog.pg_backend_pid()
      and d.datname = pg_catalog.current_database()
    limit 3
) as holder
