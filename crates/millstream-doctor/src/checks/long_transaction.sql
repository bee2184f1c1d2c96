-- Transactions that are idle, run or are prepared for long. Of several of one program, only the oldest. $1: seconds for idle
-- and prepared ones. $2: seconds for those that run. $3: at most so many.
with open as (
    select
        pid,
        format('%s of %s in %s', coalesce(nullif(application_name, ''), 'a program'), coalesce(usename, '?'),
               coalesce(datname, '?')) as name,
        case when state like 'idle in transaction%' then 'idle' else 'active' end as state,
        date_part('epoch', now() - xact_start)::float8 as seconds,
        date_part('epoch', now() - case when state like 'idle in transaction%' then state_change else xact_start end)::float8
            as waited,
        greatest(age(backend_xmin), age(backend_xid), 0)::bigint as age,
        null::text as gid
    from
        pg_stat_activity
    where
        xact_start is not null
        and backend_type = 'client backend'
        and pid <> pg_backend_pid()
    union all
    select
        null,
        format('prepared transaction of %s in %s', owner, database),
        'prepared',
        date_part('epoch', now() - prepared)::float8,
        date_part('epoch', now() - prepared)::float8,
        age(transaction)::bigint,
        gid
    from
        pg_prepared_xacts
),
long as (
    select
        *,
        row_number() over (partition by name order by seconds desc) as rank,
        count(*) over (partition by name) as times
    from
        open
    where
        waited >= case when state = 'active' then $2::float8 else $1::float8 end
)
select pid, name, state, seconds, waited, age, gid, times
from long
where rank = 1
order by seconds desc
limit $3
