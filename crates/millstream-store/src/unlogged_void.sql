-- Resets a load whose documents are gone to its beginning.
with lanes as (
    delete from {schema}.lane
    where load_id = $1
),
rejects as (
    delete from {schema}.reject
    where load_id = $1
)
update {schema}.load
set floor_source = pg_catalog.array_fill(0, array[256]),
    floor_offset = pg_catalog.array_fill(0::bigint, array[256]),
    prefix_source = 0,
    prefix_length = 0,
    prefix_hash = null,
    epoch = greatest(epoch, (select pg_catalog.max(epoch) from {schema}.lane where load_id = $1)),
    {counters},
    reject_bytes = 0,
    deleted_missing = 0,
    missing_mark = null,
    source_bytes = null,
    source_hashes = null,
    outcomes = null,
    state = 'stopped',
    stop_reason = $2,
    ended_at = pg_catalog.now(),
    receipt = null,
    emptied = null
where load_id = $1
