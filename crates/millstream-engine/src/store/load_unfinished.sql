-- An unfinished load of the same identity, to which sources may have been appended.
select load_id
from {schema}.load l
where table_oid = $1
  and mode = $2
  and key = ($3::text)::jsonb
  and format = $4
  and state <> 'finished'
  and sources = ($5::text[])[1:pg_catalog.cardinality(sources)]
  and slot_hash_version = $6
  -- Begun anew and finished since: going on with the old one would bring older documents back.
  and not exists (
      select
      from {schema}.load newer
      where newer.table_oid = l.table_oid
        and newer.mode = l.mode
        and newer.key = l.key
        and newer.format = l.format
        and newer.sources = ($5::text[])[1:pg_catalog.cardinality(newer.sources)]
        and newer.state = 'finished'
        and newer.load_id > l.load_id
  )
order by load_id desc
limit 1
