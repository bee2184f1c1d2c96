-- The newest load that added up some of these sources, beside the one that is gone on with; one of the same identity
-- before any other. Those do not count whose unlogged collection a crash of the server has emptied since.
select load_id, same, state = 'finished' as finished, receipt::text, mode, same_key, format, sources,
       prefix_source, prefix_length, prefix_hash
from (
    select
        l.*,
        key = ($3::text)::jsonb as same_key,
        mode = $2 and key = ($3::text)::jsonb and format = $4 and sources = $5::text[] and state = 'finished' as same
    from {schema}.load l
    where table_oid = $1
      and sources && $5::text[]
      and load_id is distinct from $6
      and resumable
      and split_part(mode, ':', 1) = split_part($2, ':', 1)
      and (durability <> 'unlogged' or exists (select from {schema}.unlogged_load u where u.load_id = l.load_id))
) as adding
order by same desc, load_id desc
limit 1
