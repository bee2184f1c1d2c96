-- Constraints of tables and domains that are enforced for new values alone. $1: at most so many.
select
    case when t.oid is null then k.conrelid::regclass::text else k.contypid::regtype::text end as owner,
    t.oid is not null as is_of_domain,
    quote_ident(k.conname) as name,
    pg_get_constraintdef(k.oid) as definition,
    case when t.oid is null then greatest(c.reltuples, 0) else (
        -- Those of the tables that have columns of the domain.
        select coalesce(sum(greatest(u.reltuples, 0)), 0)
        from pg_class as u
        where
            u.relkind in ('r', 'm')
            and exists (
                select from pg_attribute as a
                where a.attrelid = u.oid and a.atttypid = t.oid and a.attnum > 0 and not a.attisdropped
            )
    ) end::bigint as rows
from
    pg_constraint as k
    left join pg_class as c on c.oid = k.conrelid and c.relpersistence <> 't'
    left join pg_type as t on t.oid = k.contypid
    left join pg_namespace as n on n.oid = t.typnamespace
where
    not k.convalidated
    and (c.oid is not null or n.nspname !~ '^pg_temp')
    -- From version 18 on a constraint may be declared without being enforced at all.
    and coalesce((to_jsonb(k) ->> 'conenforced')::bool, true)
    and k.conparentid = 0
    and k.coninhcount = 0
order by
    rows desc, owner, name
limit $1
