-- The newest unfinished load into the table that reads one of these sources and can be resumed.
select load_id, mode, key = ($3::text)::jsonb as same_key, format, layout, sources, slot_hash_version, transforms,
       emptied
from {schema}.load
where table_oid = $1
  and resumable
  and state <> 'finished'
  and sources operator(pg_catalog.&&) $2::text[]
order by load_id desc
limit 1
