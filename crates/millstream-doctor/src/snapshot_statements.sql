-- What the statements have counted that have taken the most time, each over all roles. $1: of this database; null: of all.
-- $2: at most so many.
select
    d.datname::text as database,
    s.queryid,
    -- Up to version 15 the server keeps the constants of other statements, a password for instance.
    coalesce(
        min(s.query) filter (where s.query ~* '^\s*(select|with|insert|update|delete|merge|values)\M'),
        min(substring(s.query from '^\s*([[:alpha:]]+)')),
        ''
    ) as query,
    sum(s.calls)::bigint as calls,
    sum(s.total_exec_time)::float8 as milliseconds
from
    {schema}.pg_stat_statements as s
    join pg_database as d on d.oid = s.dbid
where
    s.queryid is not null
    and (d.datname = $1::text or $1 is null)
group by
    1, 2
order by
    milliseconds desc
limit $2
