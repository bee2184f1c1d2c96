-- The first of these columns that the table does not have any more.
select named.attname
from pg_catalog.unnest($2::text[]) with ordinality as named (attname, nth)
where not exists (
    select
    from pg_catalog.pg_attribute a
    where a.attrelid = $1
      and a.attname = named.attname
      and not a.attisdropped
)
order by named.nth
limit 1
