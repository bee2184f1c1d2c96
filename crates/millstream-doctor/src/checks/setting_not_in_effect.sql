-- Lines of the configuration files that the server cannot use. Those that only wait for a restart have an error, too.
select
    coalesce(f.name, f.sourcefile) as name,
    f.error,
    f.setting as written,
    s.setting as now,
    coalesce(s.context = 'postmaster', false) as needs_restart,
    format('line %s of %s', f.sourceline, f.sourcefile) as place
from
    pg_file_settings as f
    left join pg_settings as s on s.name = f.name
where
    f.error is not null
    and not coalesce(s.pending_restart, false)
order by
    1, 5
