-- Replication slots by the WAL that they hold, and those that have lost it. $1: so many times max_wal_size. $2: at most.
with slot as (
    select
        slot_name::text as name,
        active,
        coalesce(wal_status, '?') as status,
        pg_wal_lsn_diff(
            case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, restart_lsn
        )::bigint as bytes,
        pg_size_bytes(current_setting('max_wal_size')) as usual,
        current_setting('max_slot_wal_keep_size') as keep_size
    from
        pg_replication_slots
)
select *
from slot
where status in ('unreserved', 'lost') or bytes >= $1::float8 * usual
order by bytes desc nulls first
limit $2
