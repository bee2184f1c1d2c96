-- What this role may do that a function of somebody else must not: null if it can only read and write tables.
select string_agg(power, ', and ' order by power)
from (
    select 'a superuser, or a member of one' as power
    from pg_roles as r
    where r.rolsuper and pg_has_role(session_user, r.oid, 'member')
    union
    select 'a role that may make roles or replicate'
    from pg_roles
    where rolname = session_user and (rolcreaterole or rolreplication)
    union
    select 'a role that may use files or programs of the server'
    from pg_roles as r
    where
        r.rolname in ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')
        and pg_has_role(session_user, r.oid, 'member')
) as powers
