-- What the type of the name $2 in the schema $1 is. A table needs the name for the type of its rows; only an array type
-- makes room for it.
select
    case t.typtype
        when 'd' then 'a domain'
        when 'e' then 'an enum'
        when 'r' then 'a range type'
        when 'm' then 'a multirange type'
        else 'a type'
    end as kind
from pg_catalog.pg_type t
join pg_catalog.pg_namespace n on n.oid = t.typnamespace
where n.nspname = $1::text
  and t.typname = $2::text
  -- The type of a row is there as soon as another load has created the table.
  and t.typrelid = 0::pg_catalog.oid
  and not exists (select from pg_catalog.pg_type element where element.typarray = t.oid)
