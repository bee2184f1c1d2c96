-- What this session may do, or any role that it may become, and code of somebody else must not. Nothing if it can only read
-- and write tables. Whether a membership is inherited does not count: code can call `set role`. pg_monitor and the like are
-- left out: with them code sees the settings and statements of others, but no table and no session obeys it.
select distinct part.power
from pg_catalog.pg_roles r
cross join lateral (
    values
        (r.rolsuper, 'a superuser, or a member of one'),
        (
            r.rolcreaterole or r.rolreplication or r.rolbypassrls,
            'a role that may make roles, replicate or bypass row security, or a member of one'
        ),
        (
            r.rolname operator(pg_catalog.=) any (
                array['pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files']::pg_catalog.name[]
            ),
            'a role that may use files or programs of the server'
        ),
        (
            r.rolname operator(pg_catalog.=) any (
                array['pg_read_all_data', 'pg_write_all_data', 'pg_maintain']::pg_catalog.name[]
            ),
            'a role that may read, write or maintain every table'
        ),
        (
            r.rolname operator(pg_catalog.=) any (
                array['pg_signal_backend', 'pg_create_subscription']::pg_catalog.name[]
            ),
            'a role that may end the sessions of others or subscribe to other servers'
        )
) as part (is_there, power)
where part.is_there
  and (
      pg_catalog.pg_has_role(session_user, r.oid, 'member')
      or pg_catalog.pg_has_role(current_user, r.oid, 'member')
  )
