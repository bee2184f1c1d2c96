-- Records a segment, in the transaction that fills it. Records nothing if the collection's table was dropped.
insert into {schema}.segment (segment_id, table_oid, load_id, run_order, documents, bytes)
select $1, table_oid, load_id, run_order, $3, $4
from {schema}.load
where load_id = $2
  and exists (select from pg_catalog.pg_class where oid = table_oid)
