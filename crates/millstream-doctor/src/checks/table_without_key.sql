-- Tables without a key that tells all their rows apart, and those of a publication whose updates fail for want of one.
-- $1: smaller ones do not count, in rows, unless they are published. $2: at most so many.
with published as materialized (
    -- As the server sees it: by default only a primary key identifies a row.
    select c.oid, min(p.pubname) as publication
    from
        pg_publication as p
        join pg_publication_tables as t on t.pubname = p.pubname
        join pg_namespace as n on n.nspname = t.schemaname
        join pg_class as c on c.relnamespace = n.oid and c.relname = t.tablename
    where
        (p.pubupdate or p.pubdelete)
        and c.relreplident <> 'f'
        and not exists (
            select from pg_index as i
            where
                i.indrelid = c.oid
                and i.indisvalid
                and (c.relreplident = 'd' and i.indisprimary or c.relreplident = 'i' and i.indisreplident)
        )
    group by
        c.oid
)
select
    format('%I.%I', n.nspname, c.relname) as name,
    greatest(c.reltuples, 0)::bigint as rows,
    u.publication
from
    pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    left join published as u on u.oid = c.oid
where
    c.relkind in ('r', 'p')
    and c.relpersistence <> 't'
    and n.nspname not in ('pg_catalog', 'information_schema')
    and not exists (select from pg_depend as d where d.objid = c.oid and d.deptype = 'e')
    and (
        u.oid is not null
        -- Partitions come under their parent.
        or not c.relispartition
        and c.reltuples >= $1::float8
        and not exists (
            select from pg_index as i
            where
                i.indrelid = c.oid
                and i.indisvalid
                and (i.indisprimary or i.indisunique and i.indpred is null)
        )
        -- A value overlaps itself, so such a constraint refuses the second of two equal rows; but not with an operator such as <>.
        and not exists (
            select
            from
                pg_constraint as k
                join pg_index as i on i.indexrelid = k.conindid
            where
                k.conrelid = c.oid
                and k.contype = 'x'
                and i.indisvalid
                and i.indpred is null
                and not exists (
                    select
                    from
                        unnest(k.conexclop) as u (operator)
                        join pg_operator as o on o.oid = u.operator
                    where
                        o.oprname not in ('=', '&&', '~=', '@>', '<@', '<=', '>=')
                )
        )
    )
order by
    publication nulls last, rows desc, name
limit $2
