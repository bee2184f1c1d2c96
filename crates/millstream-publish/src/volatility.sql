-- A volatile function that the stored query of a view calls, and a table that it reads beside the collection's own. A
-- stored query holds the OID of every function and table in it.
with stored as (
    select ev_action::text as query from pg_catalog.pg_rewrite where ev_class = $1::text::pg_catalog.regclass::oid
),
called as (
    select distinct found[1]::pg_catalog.oid as oid
    from stored, pg_catalog.regexp_matches(query, ':(?:funcid|opfuncid) (\d+)', 'g') as found
),
tables as (
    select found[1]::pg_catalog.oid as oid
    from stored, pg_catalog.regexp_matches(query, ':rtekind 0 :relid (\d+)', 'g') as found
    where found[1]::pg_catalog.oid <> $1::text::pg_catalog.regclass::oid
)
select
    (select pg_catalog.min(p.oid::pg_catalog.regprocedure::text)
     from called
     join pg_catalog.pg_proc p using (oid)
     where p.provolatile = 'v'),
    (select pg_catalog.min(t.oid::pg_catalog.regclass::text)
     from (select oid, pg_catalog.row_number() over (partition by oid) as nth from tables) as t
     where t.oid <> $2::text::pg_catalog.regclass::oid or t.nth > 1)
