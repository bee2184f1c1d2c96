-- How a standby keeps up, as it sees it itself.
select
    greatest(
        coalesce(pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), 0), 0
    )::bigint as bytes,
    date_part('epoch', now() - pg_last_xact_replay_timestamp())::float8 as seconds,
    pg_is_wal_replay_paused() as is_paused,
    current_setting('recovery_min_apply_delay') <> '0' as is_delayed,
    exists (select from pg_settings where name = 'primary_conninfo' and setting <> '')
        and not exists (select from pg_stat_wal_receiver) as is_cut_off
