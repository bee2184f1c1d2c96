-- The newest load into the table that read one of these sources and could be gone on with. Older ones do
-- not count: beginning the newest was to give them up.
select load_id, state = 'finished' as finished, mode, key = ($3::text)::jsonb as same_key, format, layout, sources, slot_hash_version
from {schema}.load
where table_oid = $1
  and sources && $2::text[]
  and resumable
order by load_id desc
limit 1
