-- Settings as new sessions have them, with what it needs to compare them with the lines of the configuration files.
select
    name,
    reset_val as now,
    boot_val as usual,
    vartype as kind,
    unit,
    enumvals as words,
    source,
    context = 'postmaster' as needs_restart,
    pending_restart as waits
from
    pg_settings
order by
    name
