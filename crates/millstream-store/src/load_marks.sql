-- What a load has committed, per slot and at most.
select floor_source, floor_offset, prefix_source, prefix_length, prefix_hash
from {schema}.load
where load_id = $1
for update
