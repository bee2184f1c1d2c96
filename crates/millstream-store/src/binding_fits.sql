c.relkind in ('r', 'p')
and exists (
    select
    from pg_catalog.pg_attribute a
    where a.attrelid = c.oid
      and a.attname = 'doc'
      and a.atttypid = 'pg_catalog.jsonb'::pg_catalog.regtype::oid
)
and (
    select pg_catalog.array_agg(a.attname::text order by i.nth)
    from pg_catalog.pg_index p
    cross join pg_catalog.unnest(p.indkey::int2[]) with ordinality as i (attnum, nth)
    join pg_catalog.pg_attribute a on a.attrelid = p.indrelid and a.attnum = i.attnum
    where p.indrelid = c.oid
      and p.indisprimary
      and i.nth <= p.indnkeyatts
) operator(pg_catalog.=) (
    select pg_catalog.array_agg(j.value operator(pg_catalog.->>) 'name' order by j.nth)
    from pg_catalog.jsonb_array_elements(k.key) with ordinality as j (value, nth)
)
