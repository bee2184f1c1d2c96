-- Statements of this database, those that took the most time first. $1: only those that read. $2: longer texts do not count,
-- in bytes. $3: at most so many.
with counted as (
    select
        queryid,
        coalesce(query, '<insufficient privilege>') as query,
        calls,
        total_exec_time,
        100 * total_exec_time / nullif(sum(total_exec_time) over (), 0) as percent
    from
        {schema}.pg_stat_statements
    where
        dbid = (select oid from pg_database where datname = current_database())
)
select *
from counted
where
    octet_length(query) <= $2::int8
    and (not $1::bool or query ~* '^\s*(select|with)\M' or query = '<insufficient privilege>')
order by total_exec_time desc
limit $3
