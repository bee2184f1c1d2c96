-- A setting as it is, as a new server has it, and in bytes if it is a size. $1: its name. `is_own`: a role or a database has
-- set it, so it is not the server's. `may_change`: this role may write it for the server and have that read.
select
    current_setting(name) as shown,
    setting = boot_val as is_default,
    setting::float8 * case unit
        when '8kB' then current_setting('block_size')::float8
        when 'kB' then 1024
        when 'MB' then 1048576
        else 1
    end as number,
    context = 'postmaster' as needs_restart,
    source in ('database', 'user', 'database user', 'client') as is_own,
    has_parameter_privilege(name, 'alter system')
    and has_function_privilege('pg_reload_conf()', 'execute') as may_change
from
    pg_settings
where
    name = $1
