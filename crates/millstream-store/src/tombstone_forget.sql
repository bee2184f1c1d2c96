-- Deletes the tombstones that are older than $2 seconds.
delete from {schema}.tombstone
where table_oid = $1
  and deleted_at < pg_catalog.now() - pg_catalog.make_interval(secs => $2)
