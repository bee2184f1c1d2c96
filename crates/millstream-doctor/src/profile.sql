-- What the server records for whoever looks at it, and whether this role may change that.
select
    pg_catalog.current_setting('track_io_timing'),
    (
        select setting like '%pg_stat_statements%'
        from pg_catalog.pg_settings
        where name = 'shared_preload_libraries'
    ),
    pg_catalog.has_parameter_privilege('track_io_timing', 'alter system')
        and pg_catalog.has_function_privilege('pg_catalog.pg_reload_conf()', 'execute')
