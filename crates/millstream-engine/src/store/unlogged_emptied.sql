-- Whether a crash of the server has emptied the unlogged collection under a load, and what it took:
-- the load's line in the unlogged table goes with the documents. $2 says whether the table is unlogged.
select
    ($2 or l.durability = 'unlogged')
    and not exists (select from {schema}.unlogged_load u where u.load_id = l.load_id) as emptied,
    l.read + (select coalesce(sum(n.read), 0)::bigint from {schema}.lane n where n.load_id = l.load_id) as documents
from {schema}.load l
where l.load_id = $1
