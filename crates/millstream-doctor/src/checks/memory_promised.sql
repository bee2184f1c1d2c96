-- What the server may use: sizes in bytes, as new sessions have them, and how many sessions there are and may be.
select
    (select s.setting::bigint * current_setting('block_size')::bigint from pg_settings as s where s.name = 'shared_buffers')
        as buffers,
    -- What a role or a database has is not the server's.
    coalesce(
        (select s.reset_val::bigint * 1024 from pg_settings as s
            where s.name = 'work_mem' and s.source not in ('database', 'user', 'database user', 'client')), 0
    ) as work_mem,
    current_setting('max_connections')::bigint as max_sessions,
    (select count(*) from pg_stat_activity where backend_type = 'client backend') as sessions
