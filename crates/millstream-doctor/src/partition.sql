-- Partitions of tables and of indexes, each with the root of its tree. $1: at most so many.
with recursive tree as (
    select oid, oid as root from pg_class where relkind in ('p', 'I') and not relispartition
    union all
    select i.inhrelid, t.root from tree as t join pg_inherits as i on i.inhparent = t.oid
)
select
    format('%I.%I', n.nspname, c.relname) as name,
    format('%I.%I', rn.nspname, r.relname) as root
from
    tree as t
    join pg_class as c on c.oid = t.oid
    join pg_namespace as n on n.oid = c.relnamespace
    join pg_class as r on r.oid = t.root
    join pg_namespace as rn on rn.oid = r.relnamespace
where
    c.relispartition
    -- Most databases have none.
    and (select exists (select from pg_inherits))
order by
    t.oid
limit $1
