-- Locks a lane's slots, in order. Loads that check versions against tombstones take turns on a slot: a document and the
-- tombstone of its key, written at the same time, would not see each other. The first 24 bits of the lock are `mst` in
-- ASCII.
select pg_catalog.count(
    pg_catalog.pg_advisory_xact_lock((7172980::bigint << 40) | (table_oid::bigint << 8) | slot::bigint)
)
from {schema}.load
join {schema}.lane using (load_id)
cross join lateral pg_catalog.generate_series(slot_first, slot_end - 1) as slot
where load_id = {load}
  and lane = {lane}
