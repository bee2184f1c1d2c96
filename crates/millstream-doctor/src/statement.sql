-- Statements of this database, those that took the most time first: so many queries, and as many others. $1: longer texts
-- do not count, in bytes. $2: at most so many of each.
with counted as (
    select
        queryid,
        coalesce(query, '<insufficient privilege>') as query,
        -- Each role has a row of its own.
        sum(calls)::int8 as calls,
        sum(rows)::int8 as rows,
        sum(shared_blks_hit + shared_blks_read)::int8 as blocks,
        sum(shared_blks_read)::int8 as reads,
        sum(total_exec_time) as total_exec_time,
        -- What a function runs counts for the statement that calls it, too.
        100 * sum(total_exec_time)
        / nullif(sum(sum(total_exec_time) filter (where toplevel)) over (), 0) as percent
    from
        {schema}.pg_stat_statements
    where
        dbid = (select oid from pg_database where datname = current_database())
    group by
        queryid,
        query
),
short as (
    select
        *,
        begins ~* '^(select|with)\M' as is_query,
        begins ~* '^(select|with|insert|update|delete|merge)\M' as is_planned
    from
        counted,
        -- Without the comments and brackets before the first word.
        regexp_replace(query, '^(\s|\(|--[^\n]*\n|/\*([^*]|\*+[^*/])*\*+/)*', '') as begins
    where
        octet_length(query) <= $1::int8
),
ranked as (
    select *, row_number() over (partition by is_query order by total_exec_time desc) as place from short
)
select *
from ranked
where place <= $2::int8
order by total_exec_time desc
