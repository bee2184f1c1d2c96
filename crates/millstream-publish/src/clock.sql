-- The types to which the stored query of a view casts text by an input that looks at the clock for some words, such as `now`:
-- types of dates and times, and whatever has such a type in it.
with recursive
stored as (
    select ev_action::text as query from pg_catalog.pg_rewrite where ev_class = $1::text::pg_catalog.regclass::oid
),
result (oid) as (
    -- A cast through the type's input.
    select found[1]::pg_catalog.oid
    from stored, pg_catalog.regexp_matches(query, ':resulttype (\d+) :resultcollid', 'g') as found
    union
    -- `json_value (.. returning ..)` and its like.
    select found[1]::pg_catalog.oid
    from stored, pg_catalog.regexp_matches(query, '\{JSONRETURNING :format (?:<>|\{[^}]*\}) :typid (\d+)', 'g') as found
    union
    select found[2]::pg_catalog.oid
    from stored
    cross join lateral pg_catalog.regexp_matches(query, ':funcid (\d+) :funcresulttype (\d+)', 'g') as found
    join pg_catalog.pg_proc p on p.oid = found[1]::pg_catalog.oid
    where p.proname::text ~ '^jsonb?_populate_record'
    union
    -- The columns of `jsonb_to_record`.
    select column_type::pg_catalog.oid
    from stored
    cross join lateral pg_catalog.regexp_matches(query, ':funccoltypes \(o ([\d ]+)\)', 'g') as found
    cross join lateral pg_catalog.regexp_split_to_table(found[1], ' ') as column_type
),
part (result, oid) as (
    select result.oid, result.oid
    from result
    union
    select part.result, within.oid
    from part
    join pg_catalog.pg_type t on t.oid = part.oid
    left join pg_catalog.pg_range r on r.rngtypid = t.oid or r.rngmultitypid = t.oid
    left join pg_catalog.pg_attribute a on a.attrelid = t.typrelid and t.typrelid <> 0::pg_catalog.oid and a.attnum > 0
    cross join lateral (values (t.typbasetype), (t.typelem), (a.atttypid), (r.rngsubtype)) as within (oid)
    where within.oid <> 0::pg_catalog.oid
)
select pg_catalog.string_agg(distinct pg_catalog.format_type(part.result, null), ', ')
from part
join pg_catalog.pg_type t on t.oid = part.oid
where t.typcategory = 'D'
