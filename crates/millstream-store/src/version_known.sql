-- The type by which a collection's versions at a path are compared, where tables of this version hold one.
select pg_catalog.to_jsonb(k) -> 'versions' ->> $2
from {schema}.collection k
where table_oid = $1
