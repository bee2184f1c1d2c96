-- The segments of a table, in the order in which their documents take effect.
select segment_id, run_order, documents, bytes, compaction, bounds
from {schema}.segment
where table_oid = $1
order by run_order, segment_id
