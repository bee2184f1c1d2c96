-- Statements of this database that are running, each with the time since the earlier look. $1: seconds since then.
select
    query_id,
    sum(1000 * least(date_part('epoch', clock_timestamp() - query_start), $1::float8))::float8 as milliseconds
from
    pg_stat_activity
where
    datname = current_database()
    and state = 'active'
    and pid <> pg_backend_pid()
    and query_id is not null
    and backend_type = 'client backend'
group by
    query_id
