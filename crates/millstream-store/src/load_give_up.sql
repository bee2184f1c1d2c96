-- To begin a load, or go on with it, is to give up the other unfinished ones of its sources, also when it is forgotten.
update {schema}.load
set resumable = false
where table_oid = $1
  and sources && $2::text[]
  and load_id <> $3
  and resumable
  and state <> 'finished'
