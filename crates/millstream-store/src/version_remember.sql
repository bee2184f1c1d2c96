-- The type by which a collection's versions at a path are compared. If none is recorded, records $3.
update {schema}.collection
set versions = pg_catalog.jsonb_build_object($2::text, $3::text) || versions
where table_oid = $1
returning versions operator(pg_catalog.->>) $2
