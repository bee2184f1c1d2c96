-- A segment's line, in the transaction that fills it.
insert into {schema}.segment (segment_id, table_oid, load_id, run_order, documents, deletes, bytes)
select $1, table_oid, load_id, run_order, $3, $4, $5
from {schema}.load
where load_id = $2
