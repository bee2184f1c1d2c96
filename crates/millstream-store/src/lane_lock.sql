-- Locks the lanes of a load. Waits for commits in flight.
select slot_first, slot_end, source, byte_offset, prefix_hash
from {schema}.lane
where load_id = $1
order by lane
for update
