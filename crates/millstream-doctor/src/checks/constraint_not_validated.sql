-- Constraints that are enforced for new rows alone. $1: at most so many.
select
    k.conrelid::regclass::text as table_name,
    quote_ident(k.conname) as name,
    pg_get_constraintdef(k.oid) as definition,
    greatest(c.reltuples, 0)::bigint as rows
from
    pg_constraint as k
    join pg_class as c on c.oid = k.conrelid and c.relpersistence <> 't'
where
    not k.convalidated
    -- From version 18 on a constraint may be declared without being enforced at all.
    and coalesce((to_jsonb(k) ->> 'conenforced')::bool, true)
    and k.conparentid = 0
    and k.coninhcount = 0
order by
    rows desc, table_name, name
limit $1
