-- The role whose statements have written most to temporary files in this database, the statement of it that has written
-- most, and the work_mem with which its sessions begin, if it is known. $1: longer texts are cut, in characters.
with written as (
    select
        userid,
        queryid,
        left(min(query), $1::int8::int4) as query,
        sum(calls) as calls,
        sum(temp_blks_written) as blocks
    from
        {schema}.pg_stat_statements
    where
        dbid = (select oid from pg_database where datname = current_database())
        -- What a function runs counts for the statement that calls it, too.
        and toplevel
        and temp_blks_written > 0
    group by
        userid,
        queryid
),
writer as (
    select
        userid,
        sum(blocks) as own_blocks,
        sum(sum(blocks)) over () as all_blocks
    from
        written
    group by
        userid
    order by
        own_blocks desc,
        userid
    limit 1
),
given as (
    select
        coalesce(
            (
                select substr(pair, strpos(pair, '=') + 1)
                from pg_db_role_setting as o cross join unnest(o.setconfig) as pair
                where
                    pair like 'work\_mem=%'
                    and o.setrole in (w.userid, 0)
                    and o.setdatabase in ((select oid from pg_database where datname = current_database()), 0)
                -- A role's own setting counts before that of a database, and one for both first.
                order by o.setrole = 0, o.setdatabase = 0
                limit 1
            ),
            -- This session can have a value of its own, from its role or its options. That says nothing of others.
            (
                select current_setting(name)
                from pg_settings
                where name = 'work_mem' and source in ('default', 'configuration file', 'command line')
            )
        ) as work_mem
    from
        writer as w
)
select
    r.rolname::text as role,
    (100 * w.own_blocks / w.all_blocks)::float8 as percent,
    -- Of statements that this role may not see, there is no text.
    s.query as statement,
    (s.blocks * current_setting('block_size')::int8 / s.calls)::int8 as call_bytes,
    g.work_mem,
    case
        when g.work_mem ~ '^[0-9]+ *(kB|MB|GB|TB)$' then pg_size_bytes(g.work_mem)
        when g.work_mem ~ '^[0-9]{1,10}$' then 1024 * g.work_mem::int8
    end as work_mem_bytes
from
    writer as w
    join pg_roles as r on r.oid = w.userid
    cross join given as g
    left join lateral (
        select query, blocks, calls
        from written
        where written.userid = w.userid and written.queryid is not null
        order by written.blocks desc, written.queryid
        limit 1
    ) as s on true
