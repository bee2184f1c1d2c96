-- The newest load into a table that names each of these sources: whether it has finished, and what the file held then. Of a
-- load whose unlogged collection a crash emptied, the marker row is missing. The names are joined: `&&` would compare each
-- of them with each source of each load, and a folder that fills for months has tens of thousands of both.
select distinct on (source.name)
    source.name,
    source.bytes,
    source.hash,
    l.state = 'finished'
        and (
            l.durability <> 'unlogged'
            or c.relpersistence <> 'u'
            or exists (select from {schema}.unlogged_load u where u.load_id = l.load_id)
        ) as finished
from {schema}.load l
join pg_catalog.pg_class c on c.oid = l.table_oid
cross join lateral rows from (
    pg_catalog.unnest(l.sources),
    pg_catalog.unnest(l.source_bytes),
    pg_catalog.unnest(l.source_hashes)
) as source (name, bytes, hash)
join pg_catalog.unnest($2::text[]) as asked (name) on asked.name = source.name
where l.table_oid = $1
order by source.name, l.load_id desc
