-- Versions of what was deleted long ago.
delete from {schema}.tombstone
where table_oid = $1
  and deleted_at < now() - make_interval(secs => $2)
