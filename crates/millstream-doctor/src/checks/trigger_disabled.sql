-- Disabled triggers of users, and foreign keys with disabled triggers on one of their tables. $1: at most so many.
select
    g.tgrelid::regclass::text as table_name,
    quote_ident(coalesce(k.conname, g.tgname)) as name,
    k.oid is not null as is_key,
    format('%s disabled', count(*)) as states
from
    pg_trigger as g
    join pg_class as c on c.oid = g.tgrelid and c.relpersistence <> 't'
    left join pg_constraint as k on k.oid = g.tgconstraint and g.tgisinternal and k.contype = 'f'
where
    g.tgenabled = 'D'
    and g.tgparentid = 0
    and (not g.tgisinternal or k.oid is not null)
group by
    1, 2, 3
order by
    is_key desc, table_name, name
limit $1
