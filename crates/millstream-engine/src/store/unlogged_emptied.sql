-- What tells whether a crash of the server has emptied the unlogged collection under a load, and what it took:
-- the load's line in the unlogged table goes with the documents.
select
    l.table_oid::pg_catalog.regclass::text as table,
    l.durability = 'unlogged' as had_line,
    exists (select from {schema}.unlogged_load u where u.load_id = l.load_id) as has_line,
    l.read + (select coalesce(sum(n.read), 0)::bigint from {schema}.lane n where n.load_id = l.load_id) as documents
from {schema}.load l
where l.load_id = $1
