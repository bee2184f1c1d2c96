-- Tables without a key that tells all their rows apart, and a publication that needs one. $1: smaller ones do not count,
-- in rows. $2: at most so many.
select
    format('%I.%I', n.nspname, c.relname) as name,
    greatest(c.reltuples, 0)::bigint as rows,
    (
        select min(p.pubname)
        from pg_publication as p join pg_publication_tables as t on t.pubname = p.pubname
        where
            (p.pubupdate or p.pubdelete)
            and t.schemaname = n.nspname
            and t.tablename = c.relname
            and c.relreplident <> 'f'
    ) as publication
from
    pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
where
    c.relkind in ('r', 'p')
    and c.relpersistence <> 't'
    and n.nspname not in ('pg_catalog', 'information_schema')
    -- Partitions and children come under their parent.
    and not exists (select from pg_inherits as h where h.inhrelid = c.oid)
    and not exists (select from pg_depend as d where d.objid = c.oid and d.deptype = 'e')
    and c.reltuples >= $1::float8
    and not exists (
        select from pg_index as i
        where
            i.indrelid = c.oid
            and i.indisvalid
            and (i.indisprimary or i.indisunique and i.indpred is null)
    )
order by
    publication nulls last, rows desc, name
limit $2
