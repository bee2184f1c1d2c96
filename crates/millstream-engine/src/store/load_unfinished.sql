-- An unfinished load of the same identity, to which sources may have been appended.
select load_id
from {schema}.load
where table_oid = $1
  and mode = $2
  and key = ($3::text)::jsonb
  and format = $4
  and state <> 'finished'
  and sources = ($5::text[])[1:cardinality(sources)]
  and slot_hash_version = $6
order by load_id desc
limit 1
