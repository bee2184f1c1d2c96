-- The first column of a key ($2, with the types $3 that are recorded) that the table does not have or has with another type,
-- and what it has.
select wanted.name, wanted.kind, pg_catalog.format_type(a.atttypid, a.atttypmod)
from rows from (pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::text[])) with ordinality as wanted (name, kind, nth)
left join pg_catalog.pg_attribute a on a.attrelid = $1 and a.attname = wanted.name and not a.attisdropped
left join pg_catalog.pg_type t on t.oid = a.atttypid
left join pg_catalog.pg_type b on b.oid = t.typbasetype
where case t.typtype when 'd' then t.typbasetype else t.oid end is distinct from wanted.kind::pg_catalog.regtype::oid
  -- A domain over a domain.
  and b.typtype is distinct from 'd'
order by wanted.nth
limit 1
