-- The facts that decide whether a crash of the server emptied the unlogged collection under a load, and how many
-- documents it took. The crash removes the load's marker row together with the documents, unless someone has made the
-- collection's table logged.
select
    l.table_oid::pg_catalog.regclass::text as table,
    l.durability = 'unlogged' as had_line,
    coalesce((select relpersistence = 'u' from pg_catalog.pg_class where oid = l.table_oid), false) as unlogged,
    pg_catalog.split_part(l.mode, ':', 1) = 'sum' as adds_up,
    exists (select from {schema}.load n where n.table_oid = l.table_oid and n.load_id > l.load_id) as followed,
    exists (select from {schema}.unlogged_load u where u.load_id = l.load_id) as has_line,
    l.read + (select coalesce(pg_catalog.sum(n.read), 0)::bigint from {schema}.lane n where n.load_id = l.load_id) as documents
from {schema}.load l
where l.load_id = $1
