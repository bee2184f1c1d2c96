-- A session ends within a second of its client, also in the middle of a statement. Some systems cannot check that, and
-- refuse the setting.
select pg_catalog.set_config('client_connection_check_interval', '1s', false)
 where pg_catalog.strpos(pg_catalog.version(), 'linux') operator(pg_catalog.>) 0;
select pg_catalog.current_setting('server_version_num') as version_num,
       a.pid::pg_catalog.text as pid,
       a.backend_start::pg_catalog.text as backend_start,
       pg_catalog.pg_is_in_recovery()::pg_catalog.text as in_recovery,
       pg_catalog.current_setting('transaction_read_only') as read_only,
       pg_catalog.current_setting('server_encoding') as server_encoding,
       pg_catalog.current_database() as database,
       current_user as role,
       session_user as login,
       (select ('lz4' operator(pg_catalog.=) any (enumvals))::pg_catalog.text
          from pg_catalog.pg_settings where name operator(pg_catalog.=) 'default_toast_compression') as lz4
  from pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) as a
