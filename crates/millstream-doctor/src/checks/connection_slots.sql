-- Connections of clients, how many of them are idle (unknown without pg_monitor), and how many there may be without
-- those that are reserved. $1: whether the role may see other sessions.
select
    case when $1
        then (select count(*) from pg_stat_activity where backend_type = 'client backend')
        else (select sum(numbackends) from pg_stat_database)
    end::bigint as used,
    case when $1
        then (select count(*) from pg_stat_activity where backend_type = 'client backend' and state = 'idle')
    end as idle,
    (current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int)::bigint as most
