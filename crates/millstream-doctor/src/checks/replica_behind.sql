-- Replicas that are far behind. $1: in bytes. $2: or in seconds. $3: at most so many.
-- A program that only receives, such as pg_receivewal, replays nothing.
with replica as (
    select
        coalesce(nullif(application_name, ''), host(client_addr), pid::text) as name,
        coalesce(state, '?') as state,
        coalesce(sync_state, '?') as sync_state,
        date_part('epoch', coalesce(replay_lag, flush_lag, write_lag))::float8 as seconds,
        coalesce(sent_lsn, '0/0') as sent,
        coalesce(flush_lsn, sent_lsn, '0/0') as flushed,
        coalesce(replay_lsn, flush_lsn, sent_lsn, '0/0') as replayed,
        case when pg_is_in_recovery() then pg_last_wal_receive_lsn() else pg_current_wal_lsn() end as now
    from
        pg_stat_replication
    where
        state <> 'backup'
        and sent_lsn is not null
)
select
    name,
    state,
    sync_state,
    seconds,
    greatest(pg_wal_lsn_diff(now, replayed), 0)::bigint as bytes,
    greatest(pg_wal_lsn_diff(now, sent), 0)::bigint as unsent,
    greatest(pg_wal_lsn_diff(sent, flushed), 0)::bigint as unflushed,
    greatest(pg_wal_lsn_diff(flushed, replayed), 0)::bigint as unreplayed
from
    replica
where
    pg_wal_lsn_diff(now, replayed) >= $1::float8
    -- Without new WAL, the last time that was measured stays.
    or seconds >= $2::float8 and pg_wal_lsn_diff(now, replayed) > 0
order by
    bytes desc, name
limit $3
