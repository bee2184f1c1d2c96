-- The type by which a collection's versions at a path are compared; null in tables of an older version, which hold
-- none.
select pg_catalog.to_jsonb(k) operator(pg_catalog.->) 'versions' operator(pg_catalog.->>) $2
from {schema}.collection k
where table_oid = $1
