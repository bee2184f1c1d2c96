-- Abandons the other unfinished loads of a load's sources, when the load begins or resumes. They stay abandoned even if
-- the load's record is deleted later.
update {schema}.load
set resumable = false
where table_oid = $1
  and load_id <> $3
  and resumable
  and state <> 'finished'
  and sources operator(pg_catalog.&&) $2::text[]
