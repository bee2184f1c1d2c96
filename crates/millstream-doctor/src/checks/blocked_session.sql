-- Sessions that hold a lock for which others wait, at the end of each chain of waiting sessions; of several of one program
-- the one that holds up most. Who waits for an advisory lock does so on purpose. $1: at least so many seconds. $2: at most.
with recursive waits as materialized (
    select pid, min(waitstart) as since from pg_locks where not granted and waitstart is not null group by pid
),
waiting as materialized (
    select
        a.pid,
        date_part('epoch', now() - w.since)::float8 as seconds,
        pg_blocking_pids(a.pid) as blockers
    from
        pg_stat_activity as a
        join waits as w on w.pid = a.pid
    where
        a.wait_event_type = 'Lock'
        and a.wait_event is distinct from 'advisory'
),
edges as materialized (
    select distinct pid, unnest(blockers) as blocker from waiting
),
-- From those who wait for nobody outwards: each session is reached once from each of them.
chain (root, pid) as (
    select blocker, pid from edges where not exists (select from waiting as other where other.pid = edges.blocker)
    union
    select c.root, e.pid from chain as c join edges as e on e.blocker = c.pid
),
blocked as (
    select
        c.root as blocker,
        count(*) filter (where w.seconds >= $1::float8) as sessions,
        max(w.seconds) as seconds
    from
        chain as c
        join waiting as w on w.pid = c.pid
    group by
        c.root
    having
        max(w.seconds) >= $1::float8
),
named as (
    select
        case
            when b.blocker = 0 then 'prepared transaction'
            else format('%s of %s in %s', coalesce(nullif(a.application_name, ''), a.backend_type, 'a program'),
                        coalesce(a.usename, '?'), coalesce(a.datname, '?'))
        end as name,
        b.blocker as pid,
        b.sessions,
        b.seconds,
        coalesce(a.state, '') as state,
        -- A statement may hold values of rows, and a password. Its first words do not.
        coalesce(
            substring(a.query from '^\s*([[:alpha:]]+(\s+[[:alpha:]_][[:alnum:]_.]*){0,2})'), ''
        ) as words,
        a.query_id,
        coalesce(a.backend_type = 'client backend', false) as client
    from
        blocked as b
        left join pg_stat_activity as a on a.pid = b.blocker
),
ranked as (
    select *, row_number() over (partition by name order by sessions desc, seconds desc) as rank from named
)
select
    name, pid, sessions, seconds, state, words, query_id, client,
    (select count(*) from pg_stat_activity where state = 'active' and backend_type = 'client backend'
        and pid <> pg_backend_pid()) as active
from ranked
where rank = 1
order by sessions desc, seconds desc
limit $2
