-- What an index has beyond its definition, if anything. $1: its name.
select
    case
        when c.reltablespace <> 0 then 'a tablespace of its own'
        when exists (select from pg_index as i where i.indexrelid = c.oid and i.indisclustered)
            then 'the mark of cluster'
        when obj_description(c.oid, 'pg_class') is not null then 'a comment'
        when exists (select from pg_attribute as a where a.attrelid = c.oid and coalesce(a.attstattarget, -1) >= 0)
            then 'a statistics target'
    end as more
from
    pg_class as c
where
    c.oid = to_regclass($1)
