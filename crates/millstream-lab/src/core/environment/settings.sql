-- Settings that are not the default. What our own session has set counts with the value that it would have otherwise.
select
    name,
    case
        when source = 'session' then coalesce(reset_val, '') || coalesce(' ' || unit, '')
        else pg_catalog.current_setting(name)
    end as value
from
    pg_catalog.pg_settings
where
    context <> 'internal'
    and case
        when source = 'session' then reset_val is distinct from boot_val
        else source not in ('default', 'override', 'client', 'environment variable')
    end
