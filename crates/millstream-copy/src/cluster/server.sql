select pg_catalog.current_setting('data_directory') as data,
       pg_catalog.current_setting('config_file') as config,
       pg_catalog.current_setting('wal_level') as wal_level,
       pg_catalog.pg_is_in_recovery() as is_standby,
       (select s.setting::int8 from pg_catalog.pg_settings s where s.name = 'wal_segment_size') as segment_bytes,
       (select c.system_identifier::text from pg_catalog.pg_control_system() c) as system,
       (select pg_catalog.count(*) from pg_catalog.pg_replication_slots) as slots,
       pg_catalog.current_setting('max_replication_slots')::int8 as slots_max,
       (select coalesce(pg_catalog.sum(pg_catalog.pg_database_size(d.oid)), 0)::int8 from pg_catalog.pg_database d) as bytes
