-- The receipt of the last load of an identity; null while that is not finished.
select case when state = 'finished' then receipt::text end
from {schema}.load
where table_oid = $1
  and mode = $2
  and key = ($3::text)::jsonb
  and format = $4
  and sources = $5::text[]
  and slot_hash_version = $6
order by load_id desc
limit 1
