-- Disabled triggers of users, and foreign keys with disabled triggers on one of their tables. $1: at most so many.
select
    g.tgrelid::regclass::text as table_name,
    quote_ident(coalesce(k.conname, g.tgname)) as name,
    k.oid is not null as is_key,
    array_agg(quote_ident(g.tgname) order by g.tgname) as triggers,
    case count(*) when 1 then 'disabled' else format('%s disabled', count(*)) end as states
from
    pg_trigger as g
    join pg_class as c on c.oid = g.tgrelid and c.relpersistence <> 't'
    left join pg_constraint as k on k.oid = g.tgconstraint and g.tgisinternal and k.contype = 'f'
where
    g.tgenabled = 'D'
    -- A partition's trigger comes under its parent's, if that is disabled too.
    and not exists (select from pg_trigger as p where p.oid = g.tgparentid and p.tgenabled = 'D')
    and (not g.tgisinternal or k.oid is not null)
group by
    1, 2, 3
order by
    is_key desc, table_name, name
limit $1
