-- The watermarks of a load's slots, and its highest position with the hash of everything before it. Locks the load's
-- row.
select floor_source, floor_offset, prefix_source, prefix_length, prefix_hash
from {schema}.load
where load_id = $1
for update
