-- Settings that differ from their defaults, as new sessions have them. Commands, addresses and names of files may hold
-- what is nobody's business.
select
    s.name,
    case
        when s.unit in ('B', 'kB', '8kB', 'MB') then
            -- A negative size means something else.
            case when s.reset_val like '-%' then s.reset_val else pg_size_pretty(
                -- The cast, so that the server could plan the counted statement again.
                s.reset_val::numeric
                * (case s.unit when 'kB' then 1024 when '8kB' then 8192 when 'MB' then 1048576 else 1 end)::numeric
            ) end
        else s.reset_val || case when s.unit is null then '' else ' ' || s.unit end
    end as value
from
    pg_settings as s
where
    s.reset_val is distinct from s.boot_val
    -- What a role or a database has is not the server's.
    and s.source in ('configuration file', 'command line', 'environment variable')
    and s.context <> 'internal'
    and (s.vartype <> 'string' or s.name in ('shared_preload_libraries', 'synchronous_standby_names', 'wal_level'))
    and s.name not in ('port', 'in_hot_standby', 'transaction_read_only', 'transaction_isolation')
order by
    s.name
limit 500
