-- What differs from the defaults, except what a session sets for itself, places of this machine, and
-- what may hold a secret.
select
    name,
    current_setting(name) as value
from
    pg_settings
where
    source not in ('default', 'override', 'client', 'session', 'environment variable')
    and category not in ('File Locations', 'Customized Options', 'Replication / Standby Servers')
    and name !~ '(command|conninfo|directories|directory|file)$'
order by
    name
