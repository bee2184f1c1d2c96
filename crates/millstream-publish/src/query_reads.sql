-- What the stored query of the view $1 does: a relation that it reads beside the table $2, whether it reads that table,
-- whether it locks rows, and a volatile function that it calls. A stored query holds the OID of each of them. An aggregate
-- has no volatility of its own, so the functions that it is made of count.
with stored as (
    select ev_action::text as query from pg_catalog.pg_rewrite where ev_class = $1::text::pg_catalog.regclass::oid
),
relation as (
    select distinct found[1]::pg_catalog.oid as oid
    from stored, pg_catalog.regexp_matches(query, ':rtekind 0 :relid (\d+)', 'g') as found
    where found[1]::pg_catalog.oid <> $1::text::pg_catalog.regclass::oid
),
named as (
    select distinct found[1] as kind, found[2]::pg_catalog.oid as oid
    from stored,
         pg_catalog.regexp_matches(query, ':(funcid|opfuncid|aggfnoid|winfnoid) (\d+)', 'g') as found
),
called as (
    select oid
    from named
    union
    select part.oid
    from named
    join pg_catalog.pg_aggregate a on a.aggfnoid::oid = named.oid
    cross join lateral pg_catalog.unnest(array[
        a.aggtransfn::oid, a.aggfinalfn::oid, a.aggcombinefn::oid, a.aggserialfn::oid, a.aggdeserialfn::oid,
        a.aggmtransfn::oid, a.aggminvtransfn::oid, a.aggmfinalfn::oid
    ]) as part (oid)
    where named.kind in ('aggfnoid', 'winfnoid')
)
select
    (select pg_catalog.min(r.oid::pg_catalog.regclass::text) from relation r where r.oid <> $2),
    exists (select from relation r where r.oid = $2),
    (select pg_catalog.strpos(query, ':hasForUpdate true') > 0 from stored),
    (
        select pg_catalog.min(p.oid::pg_catalog.regprocedure::text)
        from called
        join pg_catalog.pg_proc p using (oid)
        where p.provolatile = 'v'
    )
