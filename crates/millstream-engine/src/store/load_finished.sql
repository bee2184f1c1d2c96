-- The receipt of the last load of an identity; null while that is not finished, and where a crash of the
-- server has emptied its unlogged collection since.
select
    case
        when state = 'finished'
            and (durability <> 'unlogged' or exists (select from {schema}.unlogged_load u where u.load_id = l.load_id))
        then receipt::text
    end
from {schema}.load l
where table_oid = $1
  and mode = $2
  and key = ($3::text)::jsonb
  and format = $4
  and sources = $5::text[]
  and slot_hash_version = $6
order by load_id desc
limit 1
