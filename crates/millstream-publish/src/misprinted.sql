-- A function or operator of the first expression that the second one, its text read again, does not call. Some SQL, such as
-- `is distinct from` and `nullif`, has no place for the schema of its operator. Stored expressions hold OIDs. Not
-- regprocedure::text, because a name without a schema would say too little.
with called (place, kind, oid) as (
    select place, found[1], found[2]::pg_catalog.oid
    from (values (1, $1::text), (2, $2::text)) as expression (place, text)
    cross join lateral pg_catalog.regexp_matches(text, ':(opno|funcid|aggfnoid|winfnoid) (\d+)', 'g') as found
)
select case kind
           when 'opno' then pg_catalog.format('operator %s', oid::pg_catalog.regoperator)
           else pg_catalog.format('function %s', oid::pg_catalog.regprocedure)
       end
from (
    (select 1 as place, kind, oid from called where place = 1 except select 1, kind, oid from called where place = 2)
    union all
    (select 2, kind, oid from called where place = 2 except select 2, kind, oid from called where place = 1)
) as differ
order by place, 1
limit 1
