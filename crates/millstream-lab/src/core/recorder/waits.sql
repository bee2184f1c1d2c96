-- Sessions of clients by what they wait for; what the checkpointer waits for; running autovacuum workers.
select
    backend_type as kind,
    coalesce(state, '') as state,
    coalesce(wait_event_type || ':' || wait_event, 'CPU') as event,
    pg_catalog.count(*)::float8 as sessions
from
    pg_catalog.pg_stat_get_activity(null)
where
    backend_type in ('client backend', 'checkpointer', 'autovacuum worker')
    and pid <> pg_catalog.pg_backend_pid()
    and coalesce(application_name, '') !~ 'millstream (lab|doctor)'
group by
    1, 2, 3
