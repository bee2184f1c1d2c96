-- Settings that differ from their defaults, as new sessions have them. Commands, addresses and names of files may hold
-- what is nobody's business.
select
    s.name,
    s.reset_val || case when s.unit is null then '' else ' ' || s.unit end as value
from
    pg_settings as s
where
    s.reset_val is distinct from s.boot_val
    and s.source not in ('client', 'override', 'session')
    and (s.vartype <> 'string' or s.name in ('shared_preload_libraries', 'synchronous_standby_names', 'wal_level'))
    and s.name not in ('port', 'in_hot_standby', 'transaction_read_only', 'transaction_isolation')
order by
    s.name
limit 500
